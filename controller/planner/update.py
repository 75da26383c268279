"""How the old pods whose turn it is get the current revision: in place where that is possible, else by a new pod."""

from __future__ import annotations

from collections.abc import Sequence

from controller.api.pod import Pod
from controller.api.text import LONGEST_ITEM, shortened
from controller.api.wellknown import (
    IN_PLACE_GRACE_ANNOTATION,
    INVALID_ANNOTATION,
    LONGEST_IN_PLACE_GRACE,
    NOT_IN_PLACE,
)
from controller.planner.actions import Action, DeleteReason, DrainPod, Note, Step, UpdateInPlace
from controller.planner.board import Board
from controller.planner.in_place.change import InPlaceChange
from controller.planner.lifecycle import retire
from controller.planner.place import Place
from controller.planner.slot import Slot
from controller.planner.stops import change_of


def update(board: Board, chosen: Sequence[Slot]) -> Step:
    """For nodes with an old pod. Where a new pod is made although updates in place are asked for, a note says why."""
    actions: list[Action] = []
    reasons: dict[tuple[str, str], None] = {}
    for slot in chosen:
        if (pod := slot.old) is None:
            continue
        change = change_of(board, pod)
        if isinstance(change, InPlaceChange):
            actions.append(_in_place(board, slot, pod, change))
        elif (deletion := retire(pod, DeleteReason.OUTDATED, board, change.refusal)) is not None:
            actions.append(deletion)
            reasons[pod.hash, change.why] = None
    notes = [_recreated(*reason) for reason in reasons]
    if (asked := board.world.daemonset.unreadable_grace) is not None:
        notes.append(_unreadable(asked))
    return Step(actions=tuple(actions), notes=tuple(notes))


def _in_place(board: Board, slot: Slot, pod: Pod, change: InPlaceChange) -> DrainPod | UpdateInPlace:
    """One that has traffic is drained first, where time is given for that: it has some as soon as it is ready, long
    before it may count as available."""
    if pod.ready and change.restarts and board.world.daemonset.in_place_grace:
        return DrainPod(pod=pod.ref, node=slot.node)
    tried = Place.of_object(pod.uid) in board.world.due_again
    return UpdateInPlace(
        pod=pod.ref, node=slot.node, before=pod.hash, revision=board.revision, change=change, tried=tried
    )


def _unreadable(asked: str) -> Note:
    shown = shortened(asked, LONGEST_ITEM)
    text = f"annotation {IN_PLACE_GRACE_ANNOTATION}: {shown!r} is not a whole number of seconds from 0 to "
    text += f"{LONGEST_IN_PLACE_GRACE}, so none are waited"
    return Note(warning=True, reason=INVALID_ANNOTATION, message=text)


def _recreated(revision_hash: str, why: str) -> Note:
    text = f"pods of revision {revision_hash} are recreated, they cannot be updated in place: {why}"
    return Note(warning=False, once=True, reason=NOT_IN_PLACE, message=text)
