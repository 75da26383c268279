"""Dry runs of DaemonSets and of their pods."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec.structs import replace

from controller.api import patch
from controller.api.daemonset import DaemonSet, DaemonSetView, project
from controller.api.names import HASH_LABEL
from controller.api.objects import JSONObject, Key, Ref, value_at
from controller.api.pod import ManagedPodView
from controller.api.revision import Revision
from controller.inplace.admission import (
    CONTAINER_MISSING,
    UPDATE_REFUSED,
    amount_undone,
    by_admission,
    image_undone,
    updating_all_images,
)
from controller.inplace.change import InPlaceChange
from controller.inplace.patches import resize_operations
from controller.kube.client import Client
from controller.kube.errors import ApiError, Forbidden, Invalid, NotFound, QuotaExceeded, UnknownFields
from controller.kube.requests import DAEMONSETS, POD_VIEWS, PODS
from controller.planner.actions import ProbeTemplate
from controller.planner.blockers import in_place_change_of
from controller.planner.pod_template import PodRenderer, unknown_field_words
from controller.planner.rollout_state import rollout_state
from kubectl_plugin.changes.apply import application_of, client_side_managers, without_fields_of_client_side
from kubectl_plugin.changes.edit import Application, Operation, with_operations
from kubectl_plugin.cluster import documents, reads
from kubectl_plugin.cluster.documents import list_objects, unless_forbidden
from kubectl_plugin.cluster.manifests import Manifest
from kubectl_plugin.cluster.reads import owned_query
from kubectl_plugin.cluster.session import Invocation, Session
from kubectl_plugin.errors import CommandError
from kubectl_plugin.forecast.report import DryRunAnswer
from kubectl_plugin.forecast.warnings import PreflightResult
from kubectl_plugin.options import KUBECTL
from kubectl_plugin.rollout.snapshot import Snapshot, Unread
from kubectl_plugin.rollout.survey import forecast_world

NO_RIGHT: Final = ("cannot create resource", "cannot set blockOwnerDeletion")
"""RBAC's refusals; a refusal by an admission policy is about the pod itself."""
ADMISSION_SECONDS: Final = 5.0
"""Timeout of all dry runs together, in seconds; without their answers the verb reports less."""
MOST_DIFFERENCES: Final = 20
"""Maximum number of differences to ask about; one pod stands for all that differ in the same way."""


async def dry_run_of_change(session: Session, live: JSONObject, wanted: JSONObject) -> JSONObject | None:
    """The object after the change, with defaults; None without the right to make it. Raises ApiError."""
    operations = [patch.add(wanted.get("spec"), "spec")]
    for field in ("labels", "annotations"):
        before, after = (value_at(one, "metadata", field) for one in (live, wanted))
        if after != before:
            operations.append(patch.add(after or {}, "metadata", field))
    name, namespace, uid = (str(value_at(live, "metadata", field)) for field in ("name", "namespace", "uid"))
    guarded = patch.guarded_by_uid(uid, *operations)
    key = Key(namespace, name)
    return await unless_forbidden(documents.patch(session, DAEMONSETS, key, guarded, dry_run=True, strict=True))


async def dry_run_of_apply(session: Session, live: JSONObject, wanted: Application, *, force: bool) -> JSONObject:
    """The object after apply, validated and with defaults. `live` is empty for a new one. Raises ApiError if the
    server rejects it: Conflict for fields of other managers, unless `force`."""
    expected = await documents.apply(session, wanted, dry_run=True, force=force)
    if not (wanted.manifest and client_side_managers(live)):
        return expected
    left = without_fields_of_client_side(live, expected)
    checked = await dry_run_of_change(session, live, left)
    return {**left, "spec": (checked or left)["spec"]}  # with the defaults of fields that go


async def dry_run_of_pod(session: Session, daemonset: DaemonSet, probe: ProbeTemplate) -> DryRunAnswer:
    """Whether the server would accept the controller's pod. Before the DaemonSet exists it rejects every pod, but
    names unknown fields first. Raises ApiError for an inconclusive answer."""
    renderer, name, create = PodRenderer(daemonset, probe.revision), probe.name, session.client.create
    try:
        body = (renderer.whole if probe.strict else renderer.body)(name, probe.node)
        await create(PODS, daemonset.namespace, body, name=name, dry_run=True, strict=probe.strict)
    except UnknownFields as error:
        words = unknown_field_words(error.message)
        return DryRunAnswer(result=PreflightResult.FAILED, text=words, unknown_fields=True)
    except QuotaExceeded:  # the pod that is deleted first makes room
        return DryRunAnswer(result=PreflightResult.OK)
    except (Forbidden, Invalid) as error:
        if any(words in error.message for words in NO_RIGHT):
            return DryRunAnswer(result=PreflightResult.SKIPPED, text="no right to create pods")
        if daemonset.uid:
            return DryRunAnswer(result=PreflightResult.FAILED, text=error.message)
    if not daemonset.uid:
        return DryRunAnswer(result=PreflightResult.SKIPPED, text="not before the DaemonSet exists")
    return DryRunAnswer(result=PreflightResult.OK)


async def unknown_fields(session: Session, snapshot: Snapshot, operations: Iterable[Operation]) -> str:
    """Why the controller would create no pod after `operations`: the server does not know fields of the new template.
    Empty if it knows them all or does not answer."""
    if not snapshot.pods_readable or not snapshot.revisions_readable:
        return ""
    try:
        after = project(msgspec.convert(with_operations(snapshot.document, operations), DaemonSetView))
        rollout = rollout_state(forecast_world(snapshot, after))
    except (ValueError, msgspec.MsgspecError):
        return ""
    if not rollout.dry_run.strict or rollout.revision.uid:
        return ""
    probe = ProbeTemplate(node=after.name, name=after.name, revision=rollout.revision, strict=True)
    try:
        answer = await dry_run_of_pod(session, after, probe)
    except ApiError:
        return ""
    return answer.text if answer.unknown_fields else ""


async def with_admission(invocation: Invocation, snapshot: Snapshot, after: DaemonSet) -> Snapshot:
    """`snapshot` with the pods whose update in place would undo changes by admission, or might do so."""
    changes, revision = _changes(snapshot, after)
    if revision is None or not changes:
        return snapshot
    client, unmapped, unsure = invocation.session.client, dict[str, str](), set[str]()
    try:
        async with asyncio.timeout(ADMISSION_SECONDS):
            pods = await list_objects(client, POD_VIEWS, snapshot.key.namespace, owned_query(snapshot.daemonset))
            groups = _alike(pods, changes)
            unsure = {uid for group in groups for uid in _uids(group)}
            for group in groups[:MOST_DIFFERENCES]:
                pod = group[0]
                why = await _why(client, pod, revision, changes[pod.metadata.uid], snapshot.now)
                if why is not None:
                    unsure -= _uids(group)
                    unmapped |= dict.fromkeys(_uids(group), why) if why else {}
    except (ApiError, TimeoutError) as error:
        words = str(error) if isinstance(error, ApiError) else f"no answer within {ADMISSION_SECONDS:g}s"
        invocation.terminal.note(f"cannot tell of all pods what admission changed: {words}")
    return replace(snapshot, unmapped=unmapped, unasked=frozenset(unsure))


def _changes(snapshot: Snapshot, after: DaemonSet) -> tuple[Mapping[str, InPlaceChange], Revision | None]:
    """The changes of images and resources in place, by pod uid, and the revision they lead to."""
    if not (after.in_place and snapshot.pods_readable and snapshot.revisions_readable):
        return {}, None
    try:
        rollout = rollout_state(forecast_world(snapshot, after))
    except (ValueError, msgspec.MsgspecError):
        return {}, None
    old = (node.old for node in rollout.outdated if node.old is not None)
    found = {pod.uid: in_place_change_of(rollout, pod) for pod in old}
    return {
        uid: one for uid, one in found.items() if isinstance(one, InPlaceChange) and (one.images or one.resources)
    }, rollout.revision


def _alike(pods: Iterable[ManagedPodView], changes: Mapping[str, InPlaceChange]) -> Sequence[list[ManagedPodView]]:
    """The pods that admission has changed, grouped by revision and difference."""
    groups: dict[object, list[ManagedPodView]] = {}
    for pod in pods:
        change = changes.get(pod.metadata.uid)
        if change is not None and (found := by_admission(pod, change)):
            of = (pod.metadata.labels or {}).get(HASH_LABEL)
            groups.setdefault((of, frozenset(found.images.items()), found.amounts, found.missing), []).append(pod)
    return [*groups.values()]


def _uids(pods: Iterable[ManagedPodView]) -> set[str]:
    return {pod.metadata.uid for pod in pods}


async def _why(
    client: Client, pod: ManagedPodView, revision: Revision, change: InPlaceChange, now: float
) -> str | None:
    """Why the controller would replace the pod; empty if it would not; None if the server does not answer."""
    meta, found = pod.metadata, by_admission(pod, change)
    ref = Ref(namespace=meta.namespace, name=meta.name, uid=meta.uid, version=meta.resource_version)
    if found.missing:
        return CONTAINER_MISSING
    try:
        if found.images:
            operations = updating_all_images(pod, revision, change, now)
            shown = await client.preview(POD_VIEWS, ref, patch.guarded_by_version(ref.version, *operations))
            if shown is None:
                return None
            if why := image_undone(found, change, shown):
                return why
        if found.amounts:
            operations = resize_operations(pod, change.resources)
            shown = await client.preview(POD_VIEWS, ref, patch.guarded_by_uid(ref.uid, *operations), sub="resize")
            return amount_undone(found, change, shown) if shown is not None else None
    except Invalid:
        return UPDATE_REFUSED
    except ApiError:
        return None
    return ""


@dataclass(frozen=True)
class ForecastTarget:
    snapshot: Snapshot
    manifest: Manifest | None = None
    exists: bool = True


async def targets_of(invocation: Invocation, manifests: Iterable[Manifest]) -> Sequence[ForecastTarget]:
    """Returns one target per object; of several manifests for it, the last counts."""
    last = {(manifest.namespace, manifest.name): manifest for manifest in manifests}
    return [await _target_of(invocation, one) for one in last.values()]


async def _target_of(invocation: Invocation, manifest: Manifest) -> ForecastTarget:
    """A missing object gets a snapshot as if it had just been created."""
    session = invocation.session
    key = Key(manifest.namespace or session.namespace, manifest.name)
    try:
        document = await documents.get(session, DAEMONSETS, key)
    except NotFound as error:
        if not error.name:
            raise
        return await _new_target(invocation, key, manifest)
    (found,) = await reads.completed(invocation, [document], reads.ALL)
    return ForecastTarget(found, manifest)


async def _new_target(invocation: Invocation, key: Key, manifest: Manifest) -> ForecastTarget:
    checked = await dry_run_of_manifest(invocation, manifest, key, {})
    document = application_of(manifest.document, key, {}, KUBECTL).body
    daemonset = daemonset_in(checked or document)
    nodes = await unless_forbidden(reads.nodes_of(invocation))
    snapshot = Snapshot(
        daemonset=replace(daemonset, generation=max(daemonset.generation, 1)),
        document=checked or document,
        owners=(),
        revisions=(),
        pods=(),
        nodes=nodes,
        now=invocation.terminal.now(),
        unread=() if nodes is not None else (Unread(what="nodes"),),
    )
    return ForecastTarget(snapshot, manifest, exists=False)


async def dry_run_of_manifest(
    invocation: Invocation, manifest: Manifest, key: Key, live: JSONObject
) -> JSONObject | None:
    """Returns the applied object, taking over all fields; None, with a note, without the right to change it. Raises
    ApiError if the server refuses the manifest."""
    application = application_of(manifest.document, key, live, KUBECTL)
    applied = await unless_forbidden(dry_run_of_apply(invocation.session, live, application, force=True))
    note_unchecked(invocation, applied)
    return applied


def daemonset_in(document: JSONObject) -> DaemonSet:
    try:
        return project(msgspec.convert(document, DaemonSetView))
    except (msgspec.ValidationError, ValueError) as error:
        raise CommandError(f"cannot make sense of the spec: {error}") from error


def note_unchecked(invocation: Invocation, checked: JSONObject | None) -> None:
    if checked is None:
        invocation.terminal.note("not checked by the server: no right to change the DaemonSet")
