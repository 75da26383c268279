"""Cares for running pods, beside whatever the stages do: those that are being updated in place, that are prepared for
their deletion, or that have a readiness gate of ours."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from math import inf

from controller.api.in_place import Resize, Underway
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.api.wellknown import (
    FAILED_IN_PLACE,
    LIFECYCLE_STATE_LABEL,
    RESIZE_DEFERRED,
    RESIZE_REFUSED,
    InPlaceRefusal,
)
from controller.planner.actions import (
    Action,
    CancelDelete,
    ContinueInPlace,
    DeleteReason,
    OpenGates,
    RelabelPod,
    ResizePod,
)
from controller.planner.board import Board
from controller.planner.eligibility import Fit
from controller.planner.in_place.change import InPlaceChange
from controller.planner.lifecycle import retire
from controller.planner.obstacle_checks import (
    in_place_change_of,
    is_given_up,
    is_recreated,
    is_updated_in_place,
    obstacle_to_image,
    obstacle_to_rollout,
    outgoing,
    resize_refusal,
)
from controller.planner.place import Place
from controller.planner.slot import Slot
from controller.planner.step import Note, Step
from controller.planner.world import taken_away


def settle_running_pods(board: Board, taken: Collection[Place]) -> Step:
    """At most `burst` writes. None goes to the pods `taken`, which other actions of this pass write to, nor to pods
    that are about to be released."""
    care = _Care(board)
    perhaps = [  # a cheap test first: few of many pods need care
        (slot, pod)
        for slot in board.slots
        for pod in slot.pods
        if pod.gates or pod.underway is not None or LIFECYCLE_STATE_LABEL in pod.labels
    ]
    for slot, pod in perhaps:
        place = Place.of_object(pod.uid)
        if _needs_care(pod) and not (pod.dying or pod.ended or place in taken or place in board.world.awaited):
            care.of(slot, pod)
    return Step(
        actions=tuple(care.actions[: board.budget.burst]),
        notes=tuple(care.notes[: board.budget.burst]),
        wake_at=min(care.wakes, default=None),
        more=care.waits,
    )


def _needs_care(pod: Pod) -> bool:
    return pod.underway is not None or pod.held_by_hook or not all(gate.open for gate in pod.gates)


class _Care:
    def __init__(self, board: Board) -> None:
        self.board = board
        self.actions: list[Action] = []
        self.notes: list[Note] = []
        self.wakes: list[float] = []
        self.waits = False
        """Whether the next change of pods should wake the DaemonSet soon."""

    def of(self, slot: Slot, pod: Pod) -> None:
        if (pod.held_by_hook or pod.marked) and (self._is_wanted(slot, pod) or is_given_up(self.board, pod)):
            keeping = CancelDelete(pod=pod.ref, labels=taken_away(self.board.world, pod))
            if keeping.place not in self.board.world.held_back:
                self.actions.append(keeping)
            return
        underway = pod.underway
        if underway is not None and underway.lasts(self.board.world.now):
            self.waits, before = True, len(self.actions)
            if underway.taken_back:
                self._give_up(pod, underway.taken_back)
            elif Place.of_object(pod.uid) not in self.board.world.held_back:
                self._go_on(pod, underway)
            if len(self.actions) > before or not self._serves(pod, underway):
                return
        if not pod.due_gates:
            return
        self.waits = True
        opening = OpenGates(pod=pod.ref, gates=pod.due_gates)
        if pod.bound and opening.place not in self.board.world.held_back and not self._is_next(pod):
            self.actions.append(opening)

    def _serves(self, pod: Pod, underway: Underway) -> bool:
        """Whether the pod may have traffic because only its resize waits, for an unknown time."""
        world = self.board.world
        waits = underway.resize is Resize.DEFERRED or (resize_refusal(world, pod) and not is_recreated(world, pod))
        return bool(waits) and underway.only_resizes

    def _give_up(self, pod: Pod, former: str) -> None:
        """Give the pod its former label back: it is an old pod again, and serves until the next attempt."""
        relabel = RelabelPod(pod=pod.ref, hash=former, taken_back=True)
        if relabel.place not in self.board.world.held_back:
            self.actions.append(relabel)

    def _go_on(self, pod: Pod, underway: Underway) -> None:
        if pod.complaint:
            text = f"pod {pod.name} on node {pod.node} does not start again: {pod.complaint}"
            self.notes.append(Note(warning=True, reason=FAILED_IN_PLACE, message=text))
        if underway.until < inf:
            self.wakes.append(underway.until)
        if underway.resize is Resize.DEFERRED:
            text = f"pod {pod.name} on node {pod.node} is not resized yet: {underway.problem}"
            self.notes.append(Note(warning=False, once=True, reason=RESIZE_DEFERRED, message=text))
        if refusal := resize_refusal(self.board.world, pod):
            text = f"pod {pod.name} on node {pod.node} cannot be resized: {refusal}"
            self.notes.append(Note(warning=True, reason=RESIZE_REFUSED, message=text))
            if is_recreated(self.board.world, pod):
                deletion = retire(pod, DeleteReason.NOT_RESIZED, self.board, InPlaceRefusal.RESIZE_REFUSED)
                self.actions += [deletion] if deletion is not None else []
                return
        if underway.resize is Resize.WANTED and self.board.world.resizable:
            self.actions.append(ResizePod(pod=pod.ref, node=pod.node))
        elif underway.continues and not underway.is_due(self.board.world.now):
            self.wakes.append(underway.due)
        elif underway.continues and not self._has_its_turn(pod):
            order = self._revisions.get(pod.hash, self.board.revision)
            self.actions.append(ContinueInPlace(pod=pod.ref, node=pod.node, revision=order, waiting=underway.waiting))

    def _is_wanted(self, slot: Slot, pod: Pod) -> bool:
        """Whether the pod has to stay: nothing wants it deleted, now or when its turn comes. If its node is gone,
        nobody knows; then False, so that a deletion that was begun goes on."""
        if slot.fit is None or slot.fit is Fit.LEAVE or pod not in (slot.current, slot.old):
            return False
        if is_recreated(self.board.world, pod):
            return False
        if slot.paired:  # on an unreachable node neither is chosen now
            return not slot.unreachable and pod is not outgoing(self.board, slot)
        return pod.uid not in self._leaving

    @cached_property
    def _leaving(self) -> frozenset[str]:
        """Uids of old pods that the update deletes, from nodes with only that pod."""
        board = self.board
        if obstacle_to_rollout(board) is not None or board.refused:
            return frozenset()
        pods = [slot.old for slot in (board.surplus if board.surging else board.outdated) if slot.old is not None]
        return frozenset([pod.uid for pod in pods if not is_updated_in_place(board, pod)])

    def _is_next(self, pod: Pod) -> bool:
        """Whether its readiness gate was closed for an update that comes next; then it stays closed. After a failed
        update it is opened until an attempt succeeds."""
        board = self.board
        place = Place.of_object(pod.uid)
        if place in board.world.held_back or place in board.world.due_again:
            return False
        if not board.in_place or not pod.draining:
            return False
        return self._has_its_turn(pod) and isinstance(in_place_change_of(board, pod), InPlaceChange)

    def _has_its_turn(self, pod: Pod) -> bool:
        """Whether the rollout updates the pod as soon as it can. While its image is missing, it does not."""
        if pod.hash == self.board.revision.hash or obstacle_to_rollout(self.board) is not None or self.board.refused:
            return False
        return pod.uid in self._waiting

    @cached_property
    def _waiting(self) -> frozenset[str]:
        board = self.board
        due = [slot for slot in board.outdated if not (board.world.unpulled and obstacle_to_image(board, slot))]
        return frozenset([slot.old.uid for slot in due if slot.old is not None])

    @cached_property
    def _revisions(self) -> Mapping[str, Revision]:
        """All stored revisions by hash."""
        return {one.hash: one for one in (*self.board.older, self.board.revision)}
