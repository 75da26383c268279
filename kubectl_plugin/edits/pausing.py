"""The edits of pause and resume."""

from __future__ import annotations

from collections.abc import Iterator

from controller.api.formats import counted
from controller.api.objects import JSONObject
from controller.planner.explanation import NodeState
from controller.planner.rollout_state import RolloutState
from kubectl_plugin.edits.draft import Draft
from kubectl_plugin.edits.edit import ROLLING, Edit, settings_of
from kubectl_plugin.edits.effects import cautions, edit_of, revision_of, rollout_after
from kubectl_plugin.report.counts_in_words import between
from kubectl_plugin.report.snapshot import Snapshot
from kubectl_plugin.report.survey import survey


def pause(snapshot: Snapshot) -> Edit:
    """Needs neither pods nor nodes: `what_stops` says what it does to them. Raises CommandError with exit code 6 for
    OnDelete."""
    if settings_of(snapshot, "pause").paused:
        return Edit(result="already paused", operations=())
    draft = Draft(snapshot.document)
    draft.set(True, *ROLLING, "paused")
    return Edit(result="paused", operations=draft.operations, warnings=cautions(snapshot))


def resume(snapshot: Snapshot) -> Edit:
    """Raises CommandError with exit code 6 for OnDelete."""
    if not settings_of(snapshot, "resume").paused:
        return Edit(result="not paused", operations=())
    draft = Draft(snapshot.document)
    draft.set(False, *ROLLING, "paused")
    return edit_of(snapshot, draft, "resumed")


def what_stops(snapshot: Snapshot, operations: tuple[JSONObject, ...] = ()) -> tuple[str, ...]:
    """Which nodes the pause stops that is there, or there after `operations`; empty where pods or nodes could not be
    read."""
    rollout = rollout_after(snapshot, operations)
    if rollout is None:
        return ()
    revision, desired = revision_of(snapshot, rollout), rollout.budget.desired
    updated = sum(node.current is not None for node in rollout.eligible)
    on_it = f"{counted(updated, 'node', 'is', of=desired)} on {revision}"
    if updated == desired:
        return (f"{on_it}; a later one is not rolled out before resume",)
    return (
        f"{on_it}; no more will be updated",
        f"not stopped: {', '.join(_nodes_going_on(snapshot, rollout))}",
    )


def _nodes_going_on(snapshot: Snapshot, rollout: RolloutState) -> Iterator[str]:
    """The nodes that still get a pod during a pause, lost pods and new nodes, and of which revision."""
    updating = [row.node for row in survey(snapshot).rows_in(NodeState.UPDATING)]
    if updating:
        yield f"{between(updating)} (already updating)"
    yield "lost pods (they come back as they were)"
    if rollout.older and not rollout.progressive and rollout.frozen:
        older = f"revision {rollout.older[0].number}" if snapshot.revisions_readable else "an older revision"
        yield f"new nodes (they get {older})"
    else:
        yield "new nodes"
