"""What the server would answer: dry runs of DaemonSets and of their pods. Nothing is stored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from controller.api import patch
from controller.api.daemonset import DaemonSet, DaemonSetView, project
from controller.api.objects import JSONObject, Key, value_at
from controller.kube.errors import ApiError, Forbidden, Invalid, QuotaExceeded, UnknownFields
from controller.kube.requests import DAEMONSETS, PODS
from controller.planner.actions import ProbeTemplate
from controller.planner.pod_template import PodRenderer, unknown_field_words
from controller.planner.rollout_state import rollout_state
from kubectl_plugin.cluster import documents
from kubectl_plugin.cluster.session import Session
from kubectl_plugin.edits.draft import with_operations
from kubectl_plugin.edits.edit import Application
from kubectl_plugin.edits.field_owners import client_side_managers, without_fields_of_client_side
from kubectl_plugin.forecast.report import DryRunAnswer
from kubectl_plugin.forecast.warnings import CheckResult
from kubectl_plugin.report.snapshot import Snapshot
from kubectl_plugin.report.world_of import world_of

NO_RIGHT: Final = ("cannot create resource", "cannot set blockOwnerDeletion")
"""How the server refuses for want of RBAC rights; an admission policy's refusal is about the pod itself."""


async def dry_run_of_change(session: Session, live: JSONObject, wanted: JSONObject) -> JSONObject | None:
    """The object `live` as it would be after the change, checked and with defaults. None without the right to do it.

    Raises ApiError where the server refuses the change.
    """
    operations = [patch.add(wanted.get("spec"), "spec")]
    for field in ("labels", "annotations"):
        before, after = (value_at(one, "metadata", field) for one in (live, wanted))
        if after != before:
            operations.append(patch.add(after or {}, "metadata", field))
    name, namespace, uid = (str(value_at(live, "metadata", field)) for field in ("name", "namespace", "uid"))
    guarded = patch.guarded_by_uid(uid, *operations)
    try:
        return await documents.patch(session, DAEMONSETS, Key(namespace, name), guarded, dry_run=True, strict=True)
    except Forbidden:
        return None


async def dry_run_of_apply(session: Session, live: JSONObject, wanted: Application, *, force: bool) -> JSONObject:
    """The object as it would be once it is applied, checked and with defaults. `live`: empty for a new one.

    Raises ApiError where the server refuses it: Conflict for fields of other managers, unless `force`.
    """
    expected = await documents.apply(session, wanted, dry_run=True, force=force)
    if not (wanted.manifest and client_side_managers(live)):
        return expected
    left = without_fields_of_client_side(live, expected)
    checked = await dry_run_of_change(session, live, left)
    return {**left, "spec": (checked or left)["spec"]}  # with the defaults of fields that go


async def dry_run_of_pod(session: Session, daemonset: DaemonSet, probe: ProbeTemplate) -> DryRunAnswer:
    """Whether the server would accept the pod that the controller would create. Raises ApiError where its answer is
    neither.

    Without an existing DaemonSet as owner it refuses every pod, but names unknown fields before.
    """
    renderer, name, create = PodRenderer(daemonset, probe.revision), probe.name, session.client.create
    try:
        body = (renderer.whole if probe.strict else renderer.body)(name, probe.node)
        await create(PODS, daemonset.namespace, body, name=name, dry_run=True, strict=probe.strict)
    except UnknownFields as error:
        words = unknown_field_words(error.message)
        return DryRunAnswer(result=CheckResult.FAILED, text=words, unknown_fields=True)
    except QuotaExceeded:  # the pod that is deleted first makes room
        return DryRunAnswer(result=CheckResult.OK)
    except (Forbidden, Invalid) as error:
        if any(words in error.message for words in NO_RIGHT):
            return DryRunAnswer(result=CheckResult.SKIPPED, text="no right to create pods")
        if daemonset.uid:
            return DryRunAnswer(result=CheckResult.FAILED, text=error.message)
    if not daemonset.uid:
        return DryRunAnswer(result=CheckResult.SKIPPED, text="not before the DaemonSet exists")
    return DryRunAnswer(result=CheckResult.OK)


async def unknown_fields(session: Session, snapshot: Snapshot, operations: Iterable[JSONObject]) -> str:
    """Why the controller would create no pod once `operations` are written: the template is new, and the server does
    not know these fields of it. Empty if it knows them all, or does not say.
    """
    if not snapshot.pods_readable or not snapshot.revisions_readable:
        return ""
    try:
        after = project(msgspec.convert(with_operations(snapshot.document, operations), DaemonSetView))
        rollout = rollout_state(world_of(snapshot, after))
    except (ValueError, msgspec.MsgspecError):
        return ""
    if not rollout.strict or rollout.revision.uid:
        return ""
    probe = ProbeTemplate(node=after.name, name=after.name, revision=rollout.revision, strict=True)
    try:
        answer = await dry_run_of_pod(session, after, probe)
    except ApiError:
        return ""
    return answer.text if answer.unknown_fields else ""
