"""Explains why a node is not as the planner wants it, and what it waits for, for conditions, metrics and plugin.

The stages of the planner ask the same functions (`obstacle_checks`) before they act. So if a node has no obstacle,
the planner acts there next, as far as the budget allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import assert_never

from controller.api.base import Value
from controller.api.pod import Pod
from controller.planner.board import Board
from controller.planner.eligibility import Fit
from controller.planner.node_state import NodeState
from controller.planner.obstacle_checks import (
    in_the_way,
    is_given_up,
    is_recreated,
    obstacle_to_creation,
    obstacle_to_deletion,
    obstacle_to_removal,
    obstacle_to_rollout,
    obstacle_to_update,
    obstacle_to_write,
    outgoing,
    resize_refusal,
    waits_for_hook,
)
from controller.planner.obstacles import Obstacle
from controller.planner.place import ROOM, Place
from controller.planner.refill import fillable, in_order, refills
from controller.planner.retries import is_unanswered
from controller.planner.slot import Slot
from controller.planner.world import Accepted, TemplateRefused, Unasked


class Explanation(Value):
    slot: Slot
    state: NodeState
    obstacle: Obstacle | None
    """The obstacle to acting on the node; None: there is none. On an empty node: to creating any pod."""


class Explainer:
    """Explains the nodes of one board. What is the same for all nodes is worked out once, when it is needed."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self._paused = board.rolling_update is not None and board.rolling_update.paused
        world = board.world
        of_daemonset = world.daemonset.pre_delete or world.daemonset.in_place_grace
        waits = world.held_back or world.not_before or world.unpulled or board.taken
        self._particular = bool(waits or of_daemonset)
        self._stale = None if world.fresh else Obstacle.STALE

    def explain(self, slot: Slot) -> Explanation:
        return Explanation(slot=slot, state=self.state(slot), obstacle=self.obstacle(slot))

    def state(self, slot: Slot) -> NodeState:
        if slot.fit is not Fit.RUN:
            return NodeState.EXCLUDED
        targeted = slot.node in self.target
        if slot.current is not None:
            if slot.current.problem is not None:
                return NodeState.FAILING
            if slot.old is not None or not slot.current_available:
                return NodeState.UPDATING
            planned = targeted and (slot.selected or not self.board.parted)
            return NodeState.UPDATED if planned else NodeState.UNPLANNED
        if slot.old is not None:
            return NodeState.NEXT if targeted else NodeState.OLD
        if slot.ended:
            return NodeState.FAILING
        if slot.pods:
            return NodeState.UPDATING if targeted else NodeState.DELETING
        return NodeState.MISSING

    def kept(self, slot: Slot) -> Obstacle | None:
        """What keeps the current revision from the node, for now or for good; None if it has it or may get it."""
        if slot.current is not None or slot.fit is not Fit.RUN or slot.node in self.board.holders:
            return None
        if slot.node not in self.target:
            return Obstacle.PARTITION if slot.selected else Obstacle.SELECTOR
        gets_it = not self.board.older and slot.old is None  # even while paused
        return Obstacle.PAUSED if self._paused and not gets_it else None

    @property
    def keepers(self) -> set[Obstacle]:
        """The obstacles that `kept` may return for some node, found without calling it for each node."""
        board, rolling = self.board, self.board.rolling_update
        found = {Obstacle.PAUSED} if self._paused else set()
        if len(board.target) < board.budget.desired:
            found.add(Obstacle.PARTITION)
            if rolling is not None and rolling.selector is not None:
                found.add(Obstacle.SELECTOR)
        return found

    def obstacle(self, slot: Slot) -> Obstacle | None:
        if slot.fit is not Fit.RUN:
            return Obstacle.TAINTED if slot.fit is Fit.STAY and slot.only_old else None
        if slot.current is not None:
            return self._of_new(slot)
        return self._of_empty(slot) if slot.old is None else self.kept(slot) or self.of_turn(slot)

    def of_turn(self, slot: Slot) -> Obstacle | None:
        """The obstacle of a node in `Board.outdated`. It is kept cheap, because it may be called for all nodes."""
        if self.of_all is not None:
            return self.of_all
        if (self._particular or len(slot.pods) > 1) and (found := self._of_particular(slot)) is not None:
            return found
        if slot.unreachable:
            return Obstacle.UNREACHABLE
        if slot.old_serves and (self._used_up if slot.old_available else self._none_young):
            return Obstacle.BUDGET
        if self._stale is None and not self.board.revision.uid:
            return Obstacle.UNSTORED  # without it, nobody could roll back to it
        return self._stale

    def _of_particular(self, slot: Slot) -> Obstacle | None:
        board = self.board
        if board.surging and (others := in_the_way(board, slot)):
            return self._unless_one_goes(others)
        return obstacle_to_update(board, slot)

    @cached_property
    def held_by_hook(self) -> tuple[Pod, ...]:
        """All pods that the preDelete hook holds, for whatever reason they have to go, in update order."""
        board = self.board
        if board.world.daemonset.pre_delete is None:
            return ()
        pods = (pod for slot in reversed(board.slots) for pod in slot.pods)
        return tuple([pod for pod in pods if not pod.dying and waits_for_hook(board, pod)])

    @cached_property
    def of_all(self) -> Obstacle | None:
        """The obstacle that keeps all nodes from being updated; None: there is none."""
        board = self.board
        held_back = board.world.held_back
        if (found := obstacle_to_rollout(board)) is not None:
            return found
        match board.verdict:
            case TemplateRefused():
                return Obstacle.REFUSED
            case Unasked():
                if (found := obstacle_to_write(board.world, Place.of_template(board.revision.hash))) is not None:
                    return found
            case Accepted():
                pass
            case _:
                assert_never(board.verdict)
        return Obstacle.RESOURCE_QUOTA if board.surging and ROOM in held_back else None

    @cached_property
    def in_turn(self) -> tuple[Slot, ...]:
        """The nodes that are updated as soon as the budget has room, in update order."""
        going = {Obstacle.BUDGET, Obstacle.STALE, Obstacle.UNSTORED, None}
        return tuple([slot for slot in self.board.outdated if self.of_turn(slot) in going])

    @cached_property
    def waiting(self) -> Mapping[Obstacle | None, list[Slot]]:
        """All nodes in `Board.outdated`, in update order, by their obstacle."""
        found: dict[Obstacle | None, list[Slot]] = {}
        for slot in self.board.outdated:
            found.setdefault(self.of_turn(slot), []).append(slot)
        return found

    def _of_new(self, slot: Slot) -> Obstacle | None:
        """The obstacle of a node with a live pod of the current revision."""
        if slot.old is None:
            return None if slot.current_available or slot.current is None else self._of_starting(slot.current)
        if slot.unreachable:
            return Obstacle.UNREACHABLE
        pod = outgoing(self.board, slot)
        if pod is None and slot.current is not None:
            return self._of_starting(slot.current)
        return Obstacle.STARTING if pod is None else obstacle_to_deletion(self.board, pod) or self._stale

    def _of_starting(self, pod: Pod) -> Obstacle | None:
        """The obstacle of a pod of the current revision that has to stay and is not available."""
        world = self.board.world
        stays = is_given_up(self.board, pod) or not is_recreated(world, pod)
        if (pod.held_by_hook or pod.marked) and stays:  # the next pass takes that back
            asked = Obstacle.UNANSWERED if is_unanswered(world, Place.of_object(pod.uid)) else None
            return asked or obstacle_to_write(world, Place.of_keeping(pod.uid)) or self._stale
        if resize_refusal(world, pod):
            return Obstacle.UNRESIZED
        underway = pod.underway
        if underway is None or not underway.lasts(world.now):
            return Obstacle.STARTING
        if underway.resize is None:
            return Obstacle.RESTARTING
        return Obstacle.RESIZING

    def _of_empty(self, slot: Slot) -> Obstacle | None:
        """The obstacle of a node without a live pod."""
        if ended := slot.ended:
            return self._unless_one_goes(ended)
        found = obstacle_to_creation(self.board, slot)
        if found is None and slot.node in self.board.barred:
            return Obstacle.PLACEMENT
        return found or self._unfilled.get(slot.node) or self._stale

    def _unless_one_goes(self, pods: list[Pod]) -> Obstacle | None:
        found = [obstacle_to_removal(self.board, pod) for pod in pods]
        return self._stale if None in found else found[0]

    @cached_property
    def _unfilled(self) -> Mapping[str, Obstacle]:
        board = self.board
        if board.fills_with_current and not board.refused_for_unknown_fields:
            return {}
        served = refills(board, in_order(board, fillable(board)))
        return {slot.node: found for slot, found in served if isinstance(found, Obstacle)}

    @cached_property
    def _used_up(self) -> bool:
        return not self.board.room

    @cached_property
    def _none_young(self) -> bool:
        """Whether the limit leaves no room for nodes whose old pod is Ready, but not yet available."""
        if self.board.surging:
            return self._used_up
        young = [
            slot
            for slot in self.board.outdated
            if slot.old_serves
            and not slot.old_available
            and not slot.unreachable
            and obstacle_to_update(self.board, slot) is None
        ]
        return not self.board.room_for(len(young))

    @cached_property
    def target(self) -> frozenset[str]:
        """The names of the nodes in `Board.target`."""
        return frozenset([slot.node for slot in self.board.target])
