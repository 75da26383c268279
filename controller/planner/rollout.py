"""The stage that rolls out: it chooses the nodes that get the current revision now."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from controller.api.pod import Pod
from controller.api.text import LONGEST_ITEM, shortened
from controller.api.wellknown import (
    IN_PLACE_GRACE_ANNOTATION,
    INVALID_ANNOTATION,
    LONGEST_IN_PLACE_GRACE,
    NOT_IN_PLACE,
)
from controller.planner.actions import (
    Action,
    DeletePod,
    DeleteReason,
    DrainPod,
    PrepareDelete,
    UpdateInPlace,
)
from controller.planner.board import Board
from controller.planner.in_place.change import InPlaceChange
from controller.planner.lifecycle import asked, new_pod, retire
from controller.planner.obstacle_checks import (
    drained_until,
    first_write_of_update,
    in_place_change_of,
    in_the_way,
    obstacle_to_rollout,
    obstacle_to_update,
)
from controller.planner.place import ROOM, Place
from controller.planner.retries import others_first
from controller.planner.slot import Slot
from controller.planner.step import Note, Step, refusal_note
from controller.planner.surge import only_held
from controller.planner.world import Accepted, TemplateRefused, Unasked


def roll_out(board: Board) -> Step:
    """The stage. Replaces old pods within the budget; does nothing while paused, or with OnDelete.

    It also does nothing while the current revision is not stored: nobody could roll back to it later.
    """
    if obstacle_to_rollout(board) or not board.revision.uid:
        return Step()
    free: Sequence[Slot] = board.outdated
    daemonset = board.world.daemonset
    world = board.world
    particular = world.held_back or world.not_before or world.unpulled or board.taken
    if particular or daemonset.in_place_grace or daemonset.pre_delete:
        free = [slot for slot in free if obstacle_to_update(board, slot) is None]
    candidates = others_first(board.world, free, partial(first_write_of_update, board))
    chosen = _within_budget(board, candidates)[: board.budget.burst]
    verdict = board.verdict
    if not chosen:
        step = Step(actions=_retire_surplus(board))
    elif not isinstance(verdict, Accepted):
        step = _asked_first(board, verdict, chosen[0], candidates)
    elif board.surging:
        beside = [new_pod(board, slot, board.revision) for slot in chosen if ROOM not in board.world.held_back]
        step = Step(actions=(*beside, *_retire_surplus(board)))
    else:
        step = _replaced(board, chosen)
    drained = (drained_until(board, slot) for slot in board.outdated) if len(free) < len(board.outdated) else ()
    wake_at = min((moment for moment in (step.wake_at, *drained) if moment is not None), default=None)
    return msgspec.structs.replace(step, more=len(free) > len(chosen), wake_at=wake_at)


def _within_budget(board: Board, candidates: Sequence[Slot]) -> list[Slot]:
    """The candidates that are updated now: all whose old pod does not serve, the others as the limit allows, those
    that are younger than minReadySeconds first.

    An unreachable node is left out, because a write there would change nothing; it only counts. While surging, a pod
    that is held before its deletion counts as one that serves: a new pod beside it is not urgent.
    """
    surging, at_once, young, within = board.surging, list[Slot](), list[Slot](), list[Slot]()
    for slot in candidates:
        if slot.unreachable or (surging and in_the_way(board, slot)):
            continue
        if slot.old_available or (surging and only_held(slot)):
            within.append(slot)
        else:
            (young if slot.old_serves else at_once).append(slot)
    if surging:
        return at_once + (young + within)[: board.room]
    return at_once + young[: board.room_for(len(young))] + within[: board.room]


def _asked_first(board: Board, verdict: Unasked | TemplateRefused, first: Slot, candidates: Sequence[Slot]) -> Step:
    """The step until the dry run has accepted the template: no old pod goes before that."""
    if isinstance(verdict, TemplateRefused) and board.world.now < board.world.ask_at:
        return Step(notes=(refusal_note(verdict),), wake_at=board.world.ask_at)
    return asked(board, first.node, (slot.node for slot in candidates))


def _replaced(board: Board, chosen: Sequence[Slot]) -> Step:
    """The step that updates the chosen nodes: in place if that is asked for and possible, else by new pods. A note
    says why it is not possible."""
    in_place, actions = board.in_place, list[Action]()
    reasons: dict[tuple[str, str], None] = {}
    for slot in chosen:
        if (pod := slot.old) is None:
            continue
        change = in_place_change_of(board, pod) if in_place else None
        if isinstance(change, InPlaceChange):
            actions.append(_in_place(board, slot, pod, change))
            continue
        refusal = None if change is None else change.refusal
        if (deletion := retire(pod, DeleteReason.OUTDATED, board, refusal)) is not None:
            actions.append(deletion)
            if change is not None:
                reasons[pod.hash, change.why] = None
    notes = [_recreated(*reason) for reason in reasons]
    if in_place and (asked := board.world.daemonset.unreadable_grace) is not None:
        notes.append(_unreadable(asked))
    return Step(actions=tuple(actions), notes=tuple(notes))


def _in_place(board: Board, slot: Slot, pod: Pod, change: InPlaceChange) -> DrainPod | UpdateInPlace:
    """The update in place of one pod. If a container restarts and a grace period is set, a ready pod is drained
    first: it has traffic as soon as it is ready, long before it counts as available."""
    if pod.ready and change.restarts and board.world.daemonset.in_place_grace:
        return DrainPod(pod=pod.ref, node=slot.node)
    tried = Place.of_object(pod.uid) in board.world.due_again
    return UpdateInPlace(
        pod=pod.ref,
        node=slot.node,
        before=pod.hash,
        revision=board.revision,
        change=change,
        tried=tried,
        moved=board.world.moved,
    )


def _unreadable(asked: str) -> Note:
    shown = shortened(asked, LONGEST_ITEM)
    text = f"annotation {IN_PLACE_GRACE_ANNOTATION}: {shown!r} is not a whole number of seconds from 0 to "
    text += f"{LONGEST_IN_PLACE_GRACE}, so there is no grace period"
    return Note(warning=True, reason=INVALID_ANNOTATION, message=text)


def _recreated(revision_hash: str, why: str) -> Note:
    text = f"pods of revision {revision_hash} are recreated, they cannot be updated in place: {why}"
    return Note(warning=False, once=True, reason=NOT_IN_PLACE, message=text)


def _retire_surplus(board: Board) -> tuple[DeletePod | PrepareDelete, ...]:
    """The deletions on `Board.surplus`, whatever the quota is: these nodes get no new pod."""
    surplus = [slot.old for slot in board.surplus[: board.budget.burst] if slot.old is not None]
    retired = (retire(pod, DeleteReason.SURPLUS, board) for pod in surplus)
    return tuple(action for action in retired if action is not None)
