"""What should exist on each node (behaviour.md §7): one daemon pod where it should run, none where it must not."""

from __future__ import annotations

from controller.api.pod import Pod
from controller.api.wellknown import FAILED_DAEMON_POD, SUCCEEDED_DAEMON_POD
from controller.planner.actions import CreatePod, DeletePod, Note, Step, Why
from controller.planner.board import Board, Slot
from controller.planner.eligibility import Fit
from controller.planner.lifecycle import retire
from controller.planner.manifest import pod_name
from controller.planner.rollout import may_hold_current


class _Needs:
    """What the nodes looked at so far ask for."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.deletes: list[DeletePod] = []
        self.empty: list[Slot] = []
        self.notes: list[Note] = []
        self.wake_at: float | None = None

    def delete(self, pod: Pod, why: Why) -> bool:
        """Whether it is deleted: a hook may hold it."""
        action = retire(pod, why, self.board)
        if action is not None:
            self.deletes.append(action)
        return action is not None

    def wake(self, moment: float) -> None:
        self.wake_at = moment if self.wake_at is None else min(self.wake_at, moment)


def place(board: Board) -> Step:
    """Creates in ascending order of nodes and deletes, each at most `burst`; the rest waits for the next pass."""
    needs = _Needs(board)
    for slot in board.slots:
        if len(slot.pods) == 1 and slot.fit is Fit.RUN and (slot.current or slot.old):
            continue  # exactly as it should be: nearly every node, nearly always
        if slot.fit is None:
            _vacate_vanished(slot, needs)
        elif slot.fit is Fit.LEAVE:
            for pod in slot.pods:
                if not pod.dying:
                    needs.delete(pod, Why.UNWANTED)
        else:
            _place_slot(slot, needs)
    burst = board.budget.burst
    deletes = tuple(needs.deletes[:burst])
    creates = _creates(board, needs.empty[:burst])
    return Step(
        actions=(*deletes, *creates),
        notes=tuple(needs.notes[:burst]),
        wake_at=needs.wake_at,
        more=max(len(needs.deletes), len(needs.empty)) > burst,
    )


def _vacate_vanished(slot: Slot, needs: _Needs) -> None:
    """The node object is gone: an unbound pod is ours to delete, a bound one is the cluster's pod GC's (§7.2)."""
    for pod in slot.pods:
        if not pod.bound and not pod.dying:
            needs.delete(pod, Why.VANISHED)


def _place_slot(slot: Slot, needs: _Needs) -> None:
    waiting = _replace_ended(slot, needs)
    live = [pod for pod in slot.pods if not pod.dying and not pod.ended]
    if len(live) > 1:
        if needs.board.surging:
            _settle_pair(slot, live, needs)
        else:
            for pod in live[1:]:
                needs.delete(pod, Why.EXCESS)
    if live or waiting or slot.fit is not Fit.RUN or slot.node in needs.board.world.held_back:
        return
    if needs.board.surging or not slot.pods:
        needs.empty.append(slot)


def _replace_ended(slot: Slot, needs: _Needs) -> bool:
    """Delete pods that ended: Succeeded at once, Failed no sooner than its back-off allows (D12).

    Returns whether there was one: its node gets no other pod before it is gone.
    """
    world = needs.board.world
    ended = [pod for pod in slot.pods if pod.ended and not pod.dying]
    for pod in ended:
        if pod.phase == "Succeeded":
            reason, why = SUCCEEDED_DAEMON_POD, Why.SUCCEEDED
        else:
            moment = world.not_before.get(slot.node, 0.0)
            if world.now < moment:
                needs.wake(moment)
                continue
            reason, why = FAILED_DAEMON_POD, Why.FAILED
        if needs.delete(pod, why):
            word = "failed" if why is Why.FAILED else "succeeded"
            text = f"Found {word} daemon pod {pod.key} on node {slot.node}, will try to delete it"
            needs.notes.append(Note(warning=why is Why.FAILED, reason=reason, message=text))
    return bool(ended)


def _settle_pair(slot: Slot, live: list[Pod], needs: _Needs) -> None:
    """While surging a node may have one pod of each kind; the old one goes once it is not needed any more."""
    for pod in live:
        if pod is not slot.current and pod is not slot.old:
            needs.delete(pod, Why.EXCESS)
    if slot.current is None or slot.old is None:
        return
    if not slot.old.ready or slot.current_available:
        needs.delete(slot.old, Why.SURGED)


def _creates(board: Board, empty: list[Slot]) -> tuple[CreatePod, ...]:
    """A pod for each of these nodes, of the revision that the node may hold (D9)."""
    if not empty:
        return ()
    world = board.world
    current_on = {slot.node for slot in may_hold_current(board)}
    creates = []
    for slot in empty:
        revision = board.revision if slot.node in current_on or not board.older else board.older[0]
        name = pod_name(world.daemonset, slot.node, revision.hash, slot.uids, world.predecessors.get(slot.node))
        creates.append(CreatePod(node=slot.node, name=name, revision=revision))
    return tuple(creates)
