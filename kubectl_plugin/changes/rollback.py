"""Rolls back to an earlier revision: its whole template, and the settings that would keep nodes from going back.

With a partition, a selector or a pause, an earlier template alone may update no node: nodes still on that revision
use up the partition. So partition and pause are lifted in the same write."""

from __future__ import annotations

from collections.abc import Sequence

from controller.api.daemonset import rollout_of
from controller.api.formats import counted
from controller.api.names import APPROVE_ANNOTATION, SKIP_STEPS_ANNOTATION
from controller.api.objects import Value
from controller.planner.nodes import NodeInfo
from kubectl_plugin.changes.edit import (
    ROLLING,
    Draft,
    Edit,
    cautions,
    on_delete_caution,
    rollout_after,
    template_gone_back_to,
)
from kubectl_plugin.rollout.history import different_revisions, live_revision
from kubectl_plugin.rollout.snapshot import RevisionDetail, Snapshot


class RollbackSettings(Value):
    to_revision: int | None = None
    """Revision number; None for the choice of `target_of`."""
    keep_partition: bool = False
    keep_paused: bool = False
    drop_selector: bool = False


def choice_explained(snapshot: Snapshot, target: RevisionDetail) -> str:
    """Why `target_of` chose this revision; empty if it is the expected one."""
    stable = rollout_of(snapshot.daemonset.status).stable_revision
    newer = [detail for detail in different_revisions(snapshot) if detail.revision.number > target.revision.number]
    if newer:
        which = "the last one" if target.revision.hash == stable else "the one before"
        return f"it is {which} that was rolled out completely; revision {newer[0].revision.number} was not"
    older = len(nodes_going_forward(snapshot, target))
    return f"it is the one before; {counted(older, 'node', 'runs')} an older one" if older else ""


def already_back(snapshot: Snapshot) -> RevisionDetail | None:
    """The live revision if the last change rolled back to it; another rollback would restore the abandoned one."""
    return live_revision(snapshot) if template_gone_back_to(snapshot) == snapshot.daemonset.identity else None


def nodes_going_forward(snapshot: Snapshot, target: RevisionDetail) -> frozenset[str]:
    """Nodes on a revision older than `target`, for which the rollback is an update."""
    numbers = {detail.revision.hash: detail.revision.number for detail in snapshot.revisions}
    return frozenset(
        node.name
        for node in _eligible_slots(snapshot)
        for pod in (node.old,)
        if pod is not None and numbers.get(pod.hash, target.revision.number) < target.revision.number
    )


def _eligible_slots(snapshot: Snapshot) -> Sequence[NodeInfo]:
    rollout = rollout_after(snapshot)
    return rollout.eligible if rollout is not None else ()


def roll_back(snapshot: Snapshot, target: RevisionDetail, settings: RollbackSettings) -> Edit:
    """Writes nothing, not even the partition, if the live template equals the target's. The template is replaced as a
    whole: a merge would keep keys added since. What was approved or skipped in an earlier rollout of the target does
    not count again."""
    revision, daemonset = target.revision, snapshot.daemonset
    if revision.identity == daemonset.identity:
        return Edit(result=f"skipped (template already equals revision {revision.number})", operations=())
    draft = Draft(snapshot.document)
    draft.set(revision.template, "spec", "template")
    for annotation in (APPROVE_ANNOTATION, SKIP_STEPS_ANNOTATION):
        draft.drop("metadata", "annotations", annotation)
    rolling = daemonset.rolling_update
    if rolling is not None:
        if rolling.partition and not settings.keep_partition:
            draft.set(0, *ROLLING, "partition")
        if rolling.paused and not settings.keep_paused:
            draft.set(False, *ROLLING, "paused")
        if settings.drop_selector:
            draft.drop(*ROLLING, "selector")
    newest = max(detail.revision.number for detail in snapshot.revisions)
    renumbered = f" (now revision {newest + 1})" if revision.number != newest else ""
    return Edit(
        result=f"rolled back to revision {revision.number}{renumbered}",
        operations=draft.operations,
        warnings=cautions(snapshot, on_delete_caution(snapshot)),
    )
