"""How pods are created and deleted: every new pod comes from `new_pod`, and every deletion goes through `retire`,
which respects whatever holds the pod.

The stage that rolls out: it chooses the nodes that get the current revision now.

Cares for running pods, beside whatever the stages do: those that are being updated in place, that are prepared for
their deletion, or that have a readiness gate of ours.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from math import inf
from zlib import crc32

import msgspec

from controller.api.formats import LONGEST_ITEM, listed, shortened
from controller.api.in_place import Resize, Underway
from controller.api.names import (
    FAILED_IN_PLACE,
    IN_PLACE_GRACE_ANNOTATION,
    INVALID_ANNOTATION,
    LIFECYCLE_STATE_LABEL,
    LONGEST_IN_PLACE_GRACE,
    NOT_IN_PLACE,
    RESIZE_DEFERRED,
    RESIZE_REFUSED,
    InPlaceRefusal,
)
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.inplace.change import InPlaceChange
from controller.planner.actions import (
    Action,
    CancelDelete,
    ContinueInPlace,
    CreatePod,
    DeletePod,
    DeleteReason,
    DrainPod,
    Note,
    OpenGates,
    PrepareDelete,
    ProbeTemplate,
    RelabelPod,
    ResizePod,
    Step,
    UpdateInPlace,
    refusal_note,
)
from controller.planner.blocker_checks import (
    drained_until,
    first_write_of_update,
    handlers,
    in_place_change_of,
    in_the_way,
    is_given_up,
    is_recreated,
    is_updated_in_place,
    obstacle_to_deletion,
    obstacle_to_image,
    obstacle_to_rollout,
    obstacle_to_update,
    others_first,
    outgoing,
    resize_refusal,
)
from controller.planner.board import Board
from controller.planner.limits import only_held
from controller.planner.node_fit import Fit
from controller.planner.pod_template import pod_name
from controller.planner.slot import Slot
from controller.planner.world import ROOM, Accepted, Place, TemplateRefused, Unasked, taken_away


def new_pod(board: Board, slot: Slot, revision: Revision) -> CreatePod:
    world = board.world
    name = pod_name(world.daemonset, slot.node, slot.uids, world.predecessors.get(slot.node))
    return CreatePod(
        node=slot.node,
        name=world.unanswered_names.get(slot.node, name),
        revision=revision,
        strict=revision is board.revision and board.strict,
    )


def asked(board: Board, first: str, others: Iterable[str]) -> Step:
    """The step that asks the server, by a dry run, about a pod of the current revision on the `first` node; after a
    refusal on one of the others, as the node may be the cause."""
    tries = board.world.asked
    candidates = [node for node in others if node != first] if tries else []
    node = min(candidates, key=lambda node: crc32(f"{tries} {node}".encode()), default=first)
    name = pod_name(board.world.daemonset, node, ("dry-run",), None)
    probe = ProbeTemplate(node=node, name=name, revision=board.revision, strict=board.strict)
    return Step() if probe.place in board.world.held_back else Step(actions=(probe,), again=True)


def retire(
    pod: Pod, why: DeleteReason, board: Board, refusal: InPlaceRefusal | None = None
) -> DeletePod | PrepareDelete | None:
    """The next step towards the deletion of `pod`; None while something keeps it. A pod that the preDelete hook
    matches is prepared first, and deleted once the hook does not match any more. `refusal`: why it is not updated in
    place, if that was asked for."""
    if obstacle_to_deletion(board, pod):
        return None
    hook = board.world.daemonset.pre_delete
    if hook is None or not (held_by := handlers(pod, hook)):
        return DeletePod(pod=pod.ref, node=pod.node, why=why, refusal=refusal, as_seen=hook is not None)
    return PrepareDelete(
        pod=pod.ref,
        node=pod.node,
        why=why,
        mark=hook.mark_pod_not_ready,
        held_by=listed(held_by, separator=" and "),
        tried=Place.of_object(pod.uid) in board.world.due_again,
    )


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
