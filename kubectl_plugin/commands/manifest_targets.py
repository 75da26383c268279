"""The DaemonSet that a manifest is for, live or as it would be created."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from controller.api.daemonset import DaemonSet, DaemonSetView, project
from controller.api.objects import JSONObject, Key
from controller.kube.errors import Forbidden, NotFound
from controller.kube.requests import DAEMONSETS
from kubectl_plugin.changes.apply import application_of
from kubectl_plugin.cluster import documents, previews, reads
from kubectl_plugin.cluster.manifests import Manifest
from kubectl_plugin.cluster.session import Invocation
from kubectl_plugin.errors import CommandError
from kubectl_plugin.options import KUBECTL
from kubectl_plugin.rollout.snapshot import Snapshot, Unread


@dataclass(frozen=True)
class ForecastTarget:
    snapshot: Snapshot
    manifest: Manifest | None = None
    exists: bool = True


async def targets_of(invocation: Invocation, manifests: Iterable[Manifest]) -> Sequence[ForecastTarget]:
    """Returns one target per object; of several manifests for it, the last counts."""
    last = {(one.namespace, one.name): one for one in manifests}
    return [await _target_of(invocation, one) for one in last.values()]


async def _target_of(invocation: Invocation, manifest: Manifest) -> ForecastTarget:
    """A missing object gets a snapshot as if it had just been created."""
    session = invocation.session
    key = Key(manifest.namespace or session.namespace, manifest.name)
    try:
        await documents.get(session, DAEMONSETS, key)
    except NotFound as error:
        if not error.name:
            raise
        return await _new_target(invocation, key, manifest)
    return ForecastTarget(await reads.snapshot(invocation, key.name, namespace=key.namespace), manifest)


async def _new_target(invocation: Invocation, key: Key, manifest: Manifest) -> ForecastTarget:
    checked = await dry_run_of_manifest(invocation, manifest, key, {})
    document = application_of(manifest.document, key, {}, KUBECTL).body
    daemonset = daemonset_in(checked or document)
    try:
        nodes = await reads.nodes_of(invocation)
    except Forbidden:
        nodes = None
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
    try:
        return await previews.dry_run_of_apply(invocation.session, live, application, force=True)
    except Forbidden:
        tell_unchecked(invocation, None)
        return None


def daemonset_in(document: JSONObject) -> DaemonSet:
    try:
        return project(msgspec.convert(document, DaemonSetView))
    except (msgspec.ValidationError, ValueError) as error:
        raise CommandError(f"cannot make sense of the spec: {error}") from error


def tell_unchecked(invocation: Invocation, checked: JSONObject | None) -> None:
    if checked is None:
        invocation.terminal.note("not checked by the server: no right to change the DaemonSet")
