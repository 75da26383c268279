"""The state of one node in a rollout, in one word: the same for metrics, `nodes --only` and every screen.

Explains why a node is not as the planner wants it, and what it waits for, for conditions, metrics and plugin.

The stages of the planner ask the same functions (`obstacle_checks`) before they act. So if a node has no obstacle,
the planner acts there next, as far as the budget allows.

The texts about the preDelete hook: which pods it holds, or that it matches none.

Finds the blocker of a rollout: the one reason for which nodes that should be updated now wait.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Final, assert_never

from controller.api.formats import joined, listed
from controller.api.names import (
    FAILED_IN_PLACE,
    HELD_BY_HOOK,
    HOOK_UNMATCHED,
    NODES_UNREACHABLE,
    RESIZE_DEFERRED,
    RESIZE_REFUSED,
)
from controller.api.objects import Value, rfc3339
from controller.api.pod import Pod
from controller.planner.blocker_checks import (
    fillable,
    handlers,
    hooked,
    in_order,
    in_the_way,
    is_given_up,
    is_recreated,
    is_unanswered,
    obstacle_to_creation,
    obstacle_to_deletion,
    obstacle_to_removal,
    obstacle_to_rollout,
    obstacle_to_update,
    obstacle_to_write,
    outgoing,
    refills,
    resize_deferral,
    resize_refusal,
    waits_for_hook,
)
from controller.planner.blockers import Obstacle
from controller.planner.board import Board
from controller.planner.node_fit import Fit
from controller.planner.progress import Condition, Standing
from controller.planner.slot import Slot
from controller.planner.world import ROOM, Accepted, Place, TemplateRefused, Unasked, Unpullable


class NodeState(StrEnum):
    UPDATED = "updated"
    """It has an available pod of the current revision."""
    UPDATING = "updating"
    """It is being updated: the old pod is going, or the new one is not available yet."""
    FAILING = "failing"
    """Its pod of the current revision does not recover by waiting, or has ended."""
    NEXT = "next"
    """Its old pod may be replaced, and its turn comes."""
    OLD = "old"
    """Partition or selector keeps its old pod."""
    MISSING = "missing"
    """It has no pod, although it should have one."""
    UNPLANNED = "unplanned"
    """It is updated, although partition or selector would have kept it old."""
    DELETING = "deleting"
    """Its only pod is being deleted, and one of an older revision will follow."""
    EXCLUDED = "excluded"
    """It should not run a pod."""


PREPARING: Final = "preparing"
"""No state of its own, but shown beside any state: the preDelete hook holds a pod there."""


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


def holding(explainer: Explainer) -> str:
    """Which pods the hook holds, by what and since when; empty: none. It does not change because time passes."""
    pods, hook = explainer.held_by_hook, explainer.board.world.daemonset.pre_delete
    if not pods:
        return ""
    names = some(pod.name for pod in pods)
    held_by = listed(dict.fromkeys(one for pod in pods for one in handlers(pod, hook)), separator=" and ")
    since = min((pod.held_since for pod in pods if pod.held_since is not None), default=None)
    when = "" if since is None else f" since {rfc3339(since)}"
    return f"the preDelete hook holds {names} by {held_by}{when}"


def unmatched_hook(board: Board) -> tuple[Condition, ...]:
    """A warning while no pod has what the hook looks for; something other than the template may still add it. Pods
    that are being deleted, or were released by the hook, do not count."""
    hook = board.world.daemonset.pre_delete
    if hook is None:
        return ()
    live = [pod for slot in board.slots for pod in slot.live]
    if all(pod.held_by_hook for pod in live) or any(hooked(pod, hook) for pod in live):
        return ()
    labels = [f"label {key}={value}" for key, value in (hook.labels_handler or {}).items()]
    wanted = listed(
        [*labels, *(f"finalizer {one}" for one in sorted(hook.finalizers_handler or ()))], separator=" or "
    )
    text = f"no pod has {wanted}: the preDelete hook holds none of them back"
    return (Condition(type=HOOK_UNMATCHED, status="True", reason="NoPodMatches", message=text),)


def some(names: Iterable[str]) -> str:
    """The first three names, and how many more follow."""
    known = list(names)
    shown = ", ".join(known[:3])
    return f"{shown} and {len(known) - 3} more" if len(known) > 3 else shown


WAITS_FOR: Final = "waits for "
"""How `awaiting` begins."""


class Blocker(Value):
    """A reason why a rollout waits, for the condition, and a text."""

    reason: str
    text: str


_WAITS = {
    Obstacle.UNPULLED: Blocker(reason="ImagesNotPulled", text="the new image cannot be pulled on"),
    Obstacle.UNANSWERED: Blocker(reason="ServerSilent", text="the server has not answered what was asked for"),
    Obstacle.PULLING: Blocker(reason="PullingImages", text="the new image is being pulled on"),
    Obstacle.UNREACHABLE: Blocker(reason=NODES_UNREACHABLE, text="it is the turn of unreachable nodes:"),
}


def blocker_of(explainer: Explainer, standing: Standing) -> Blocker | None:
    """The blocker of a rollout: why nodes that should be updated now wait, if that is neither a pod nor the budget;
    None: the rollout moves."""
    if standing.awaited:
        return Blocker(reason=NODES_UNREACHABLE, text=awaiting(standing.awaited))
    if Obstacle.HOOK in explainer.waiting or _holds_a_node(explainer):
        return Blocker(reason=HELD_BY_HOOK, text=holding(explainer))
    if explainer.board.in_place and (stuck := _stuck_in_place(explainer.board)) is not None:
        return stuck
    return _all_wait(explainer)


def awaiting(names: Collection[str]) -> str:
    """Such as `waits for 3 unreachable nodes: node-2, node-1, node-0`."""
    return f"{WAITS_FOR}{len(names)} unreachable {'node' if len(names) == 1 else 'nodes'}: {some(names)}"


def _all_wait(explainer: Explainer) -> Blocker | None:
    """The blocker of a rollout in which every node waits for somebody else to act, though not all of them for
    unreachable nodes. Its reason is the first in the order of `_WAITS`."""
    board, waiting = explainer.board, explainer.waiting
    found = [(one, slots) for one in _WAITS if (slots := waiting.get(one))]
    if {one for one, _ in found} <= {Obstacle.UNREACHABLE} or sum(len(slots) for _, slots in found) < len(
        board.outdated
    ):
        return None
    parts = []
    for obstacle, slots in found:
        first = board.world.unpulled.get(slots[0].node)
        why = f": {first.why}" if obstacle is Obstacle.UNPULLED and isinstance(first, Unpullable) else ""
        parts.append(f"{_WAITS[obstacle].text} {some(slot.node for slot in slots)}{why}")
    return Blocker(reason=_WAITS[found[0][0]].reason, text=joined(*parts))


def _holds_a_node(explainer: Explainer) -> bool:
    """Whether the preDelete hook keeps a failed pod, or an old one whose successor is available."""
    held = {pod.node for pod in explainer.held_by_hook}
    return any(slot.node in held and explainer.obstacle(slot) is Obstacle.HOOK for slot in explainer.board.slots)


def _stuck_in_place(board: Board) -> Blocker | None:
    """The blocker for pods that were updated in place and do not become what the revision asks for."""
    updated = [slot.current for slot in board.slots if slot.current is not None and not slot.current_available]
    pods = [pod for pod in updated if pod.underway is not None]
    for reason, text, why in (
        (
            RESIZE_REFUSED,
            "the resize of pods is refused on",
            {pod.node: resize_refusal(board.world, pod) for pod in pods},
        ),
        (RESIZE_DEFERRED, "the resize of pods is deferred on", {pod.node: resize_deferral(pod) for pod in pods}),
        (FAILED_IN_PLACE, "containers do not start again on", {pod.node: pod.problem or "" for pod in pods}),
    ):
        if names := [node for node in why if why[node]]:
            return Blocker(reason=reason, text=f"{text} {some(names)}: {why[names[0]]}")
    return None
