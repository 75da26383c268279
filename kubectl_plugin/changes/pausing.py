"""The edits of pause, resume and restart (a template annotation, as with `kubectl rollout restart`)."""

from __future__ import annotations

from collections.abc import Iterator

from controller.api.daemonset import rollout_of
from controller.api.formats import counted
from controller.api.names import RESTARTED_AT
from controller.api.objects import JSONObject, rfc3339
from controller.planner.explanation import NodeState
from controller.planner.rollout_state import RolloutState
from kubectl_plugin.changes.edit import (
    ROLLING,
    Caution,
    Draft,
    Edit,
    cautions,
    edit_of,
    on_delete_caution,
    pause_caution,
    revision_of,
    rollout_after,
    settings_of,
)
from kubectl_plugin.rollout.snapshot import Snapshot
from kubectl_plugin.rollout.survey import survey
from kubectl_plugin.wording import between, command


def pause(snapshot: Snapshot) -> Edit:
    """Needs no pods or nodes; see `what_stops`. Raises CommandError (exit code 6) for OnDelete."""
    if settings_of(snapshot, "pause").paused:
        return Edit(result="already paused", operations=())
    draft = Draft(snapshot.document)
    draft.set(True, *ROLLING, "paused")
    return Edit(result="paused", operations=draft.operations, warnings=cautions(snapshot))


def resume(snapshot: Snapshot) -> Edit:
    """Raises CommandError (exit code 6) for OnDelete."""
    if not settings_of(snapshot, "resume").paused:
        return Edit(result="not paused", operations=())
    draft = Draft(snapshot.document)
    draft.set(False, *ROLLING, "paused")
    return edit_of(snapshot, draft, "resumed")


def what_stops(snapshot: Snapshot, operations: tuple[JSONObject, ...] = ()) -> tuple[str, ...]:
    """The nodes that the pause stops once `operations` are written; empty if pods or nodes are unreadable."""
    rollout = rollout_after(snapshot, operations)
    if rollout is None:
        return ()
    revision, desired = revision_of(snapshot, rollout), rollout.budget.desired
    updated = sum(node.current is not None for node in rollout.eligible)
    on_it = f"{counted(updated, 'node', 'is', of=desired)} on {revision}"
    if updated == desired:
        return (f"{on_it}; a later one is not rolled out before resume",)
    return (f"{on_it}; no more will be updated", f"not stopped: {', '.join(_nodes_going_on(snapshot, rollout))}")


def _nodes_going_on(snapshot: Snapshot, rollout: RolloutState) -> Iterator[str]:
    updating = [row.node for row in survey(snapshot).rows_in(NodeState.UPDATING)]
    if updating:
        yield f"{between(updating)} (already updating)"
    yield "lost pods (they come back as they were)"
    if rollout.older and not rollout.progressive and rollout.frozen:
        older = f"revision {rollout.older[0].number}" if snapshot.revisions_readable else "an older revision"
        yield f"new nodes (they get {older})"
    else:
        yield "new nodes"


def restart(snapshot: Snapshot) -> Edit:
    """Uses the snapshot's time in whole seconds, so that two calls within a second are one restart. Partition,
    selector and budget apply as in any update."""
    draft = Draft(snapshot.document)
    draft.set(rfc3339(snapshot.now), "spec", "template", "metadata", "annotations", RESTARTED_AT)
    if not draft.operations:
        return Edit(result="already restarted", operations=())
    warnings = (on_delete_caution(snapshot), pause_caution(snapshot), _abort_caution(snapshot))
    return edit_of(snapshot, draft, "restarted", *warnings)


def _abort_caution(snapshot: Snapshot) -> Caution | None:
    """The spec keeps the aborted template, also once no node has it any more."""
    if rollout_of(snapshot.daemonset.status).aborted_revision is None:
        return None
    return Caution(
        text=f"the rollout of {snapshot.key.name} was aborted: a restart rolls the same template out once more",
        hints=(command("rollback", snapshot.key, to="to go back to the stable one first"),),
    )
