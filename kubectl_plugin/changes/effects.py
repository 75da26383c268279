"""What a change does to the nodes, according to the controller's planner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from controller.api.daemonset import DaemonSet, DaemonSetView, project
from controller.api.formats import counted
from controller.api.objects import JSONObject
from controller.api.revision import Revision
from controller.planner.blocker_texts import Blocker
from controller.planner.node_fit import Placement
from controller.planner.rollout_state import RolloutState, rollout_state
from kubectl_plugin.changes.edit import Caution, Draft, Edit, with_operations
from kubectl_plugin.rollout.in_place import Moves, planned_moves, unasked_words, ways_of
from kubectl_plugin.rollout.snapshot import Snapshot
from kubectl_plugin.rollout.world_of import world_of
from kubectl_plugin.wording import between, command


def rollout_after(snapshot: Snapshot, operations: tuple[JSONObject, ...] = ()) -> RolloutState | None:
    """The rollout once `operations` are written. None if pods are unreadable, if nodes are unreadable although
    placement depends on them, or if the planner rejects the spec."""
    if not snapshot.pods_readable:
        return None
    try:
        after = project(msgspec.convert(with_operations(snapshot.document, operations), DaemonSetView))
        if snapshot.nodes is None and _chooses_nodes(after):
            return None
        return rollout_state(world_of(snapshot, after))
    except (ValueError, msgspec.MsgspecError):
        return None


def _chooses_nodes(daemonset: DaemonSet) -> bool:
    """Whether node labels or taints decide which nodes get a pod or an update."""
    rolling, spec = daemonset.rolling_update, msgspec.convert(daemonset.spec.template, Placement).spec
    selects = rolling is not None and rolling.selector is not None
    return selects or bool(spec.node_selector) or spec.affinity is not None


def number_of(current: Revision, history: Sequence[Revision]) -> int:
    """The number of the current revision, or the one the controller will give it: always the highest."""
    return max(current.number, history[0].number + 1 if history else 1)


def revision_of(snapshot: Snapshot, rollout: RolloutState) -> str:
    """`revision 7`, or `the newest revision` if revisions are unreadable."""
    if not snapshot.revisions_readable:
        return "the newest revision"
    return f"revision {number_of(rollout.revision, rollout.history)}"


def course_words(snapshot: Snapshot, rollout: RolloutState) -> tuple[str, ...]:
    moves = planned_moves(rollout)
    revision, desired = revision_of(snapshot, rollout), rollout.budget.desired
    moving, waiting = moves.moving, moves.held.get(Blocker.PAUSED, ())
    if moving:
        first = f"{_nodes_get(moving, desired)} {revision}: {', then '.join(_turn_lines(moves))}"
    elif waiting:
        first = f"{_nodes_get(waiting, desired)} {revision} after resume: {between(waiting)}"
    else:
        first = f"no node gets {revision} now; {len(moves.staying)} of {desired} have it"
    ways = (*ways_of(rollout).words(), *unasked_words(snapshot)) if moving else ()
    return (first, *_kept_lines(rollout, moves), *ways)


def _nodes_get(nodes: Sequence[str], desired: int) -> str:
    return counted(len(nodes), "node", "gets", of=desired)


def _turn_lines(moves: Moves) -> Iterator[str]:
    if moves.at_once:
        yield f"{between(moves.at_once)} at once (no available pod)"
    if moves.later and not moves.wave:
        verb = "is" if len(moves.spent_by) == 1 else "are"
        yield f"{between(moves.later)} when {between(moves.spent_by)} {verb} available"
    elif moves.later:
        pace = f", {moves.wave} at a time" if len(moves.later) > moves.wave else ""
        yield f"{between(moves.later)}{pace}"


def _kept_lines(rollout: RolloutState, moves: Moves) -> Iterator[str]:
    """Nodes that keep an old revision, except those in the first line or in a caution."""
    partition = rollout.rolling_update.partition if rollout.rolling_update else None
    for blocker, nodes in moves.held.items():
        if blocker not in (Blocker.PAUSED, Blocker.ON_DELETE):
            yield blocker.text.of_edited.format(
                partition=partition, who=f"{counted(len(nodes), 'node')} ({between(nodes)})"
            )


def edit_of(
    snapshot: Snapshot,
    draft: Draft,
    result: str,
    *warnings: Caution | None,
    details: Sequence[str] = (),
) -> Edit:
    rollout = rollout_after(snapshot, draft.operations)
    return Edit(
        result=result,
        operations=draft.operations,
        details=(*details, *(course_words(snapshot, rollout) if rollout else ())),
        warnings=cautions(snapshot, *warnings),
    )


def cautions(snapshot: Snapshot, *others: Caution | None) -> tuple[Caution, ...]:
    terminating = Caution(text=f"{snapshot.key.name} is being deleted") if snapshot.daemonset.terminating else None
    return tuple(one for one in (terminating, *others) if one is not None)


def on_delete_caution(snapshot: Snapshot) -> Caution | None:
    daemonset = snapshot.daemonset
    if daemonset.rolling_update is not None:
        return None
    return Caution(
        text=f"updateStrategy of {daemonset.name} is OnDelete: pods change only when you delete them",
        hints=(command("nodes", daemonset.key, "--only", "old"),),
    )


def pause_caution(snapshot: Snapshot) -> Caution | None:
    daemonset = snapshot.daemonset
    if not daemonset.paused:
        return None
    return Caution(
        text=f"{daemonset.name} is paused: nothing moves before it is resumed",
        hints=(command("resume", daemonset.key),),
    )
