"""What an explanation promises of any world: a node without an obstacle is exactly one on which the planner acts
next, given budget; and the obstacle named is the one whose removal makes it act, or reveals the next one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from controller.api.daemonset import RollingUpdate
from controller.api.pod import Pod
from controller.planner import actions
from controller.planner.actions import DeleteReason
from controller.planner.blocker_checks import outgoing
from controller.planner.blockers import Obstacle
from controller.planner.board import Board, lay_out
from controller.planner.explanation import Explainer, NodeState
from controller.planner.limits import awaits_retry
from controller.planner.node_fit import Fit
from controller.planner.placement import place_pods
from controller.planner.rolling_update import roll_out, settle_running_pods
from controller.planner.slot import Slot
from controller.planner.validation import compiled
from controller.planner.world import Accepted, World

DONE: Final = (NodeState.UPDATED, NodeState.UNPLANNED, NodeState.EXCLUDED)


def unlimited(board: Board) -> Board:
    """The same with more budget than there are nodes, and without a turn for what failed before."""
    most = len(board.slots) + len(board.world.pods) + 1
    surge = most if board.surging else 0
    budget = replace(board.budget, max_unavailable=most, max_surge=surge, burst=most)
    return replace(board, world=replace(board.world, due_again={}), budget=budget)


def crowded(board: Board, slot: Slot) -> bool:
    """Whether a surge there waits for pods beside the old one to go."""
    return board.surging and slot.only_old and (awaits_retry(slot, board.revision.hash) or not slot.single)


def stays(board: Board, slot: Slot) -> Pod | None:
    """The current pod of a node from which no other one goes now."""
    return slot.current if outgoing(board, slot) is None else None


def acted_on(board: Board) -> set[str]:
    """Nodes on which placement or update would act: in this pass, or in the next if nothing else came in between.

    Not where only something beside the pod in question is removed.
    """
    slots = {slot.node: slot for slot in board.slots}
    found: set[str] = set()
    steps = (place_pods(board), roll_out(board), settle_running_pods(board, ())) if board.world.fresh else ()
    for action in (action for step in steps for action in step.actions):
        match action:
            case (
                actions.CreatePod(node=node)
                | actions.DeletePod(node=node, why=DeleteReason.OUTDATED | DeleteReason.SURGED)
            ):
                found.add(node)
            case actions.PrepareDelete(node=node, why=DeleteReason.OUTDATED | DeleteReason.SURGED):
                found.add(node)
            case actions.UpdateInPlace(node=node) | actions.DrainPod(node=node):
                found.add(node)
            case (
                actions.DeletePod(why=DeleteReason.NOT_RESIZED) | actions.PrepareDelete(why=DeleteReason.NOT_RESIZED)
            ):
                pass  # the obstacle is what ends so
            case actions.DeletePod(node=node, pod=pod) | actions.PrepareDelete(node=node, pod=pod):
                slot = slots[node]
                one_of_two = slot.paired and pod.uid in {one.uid for one in (slot.current, slot.old) if one}
                if one_of_two or crowded(board, slot) or not (slot.current or slot.old):
                    found.add(node)
            case actions.CancelDelete(pod=pod):
                found |= {one.node for one in board.slots if (kept := stays(board, one)) and kept.uid == pod.uid}
            case actions.ProbeTemplate() if not board.refused:
                answer = {**board.world.verdicts, board.revision.hash: Accepted()}
                found |= acted_on(replace(board, world=replace(board.world, verdicts=answer)))
    return found


def obstacles(world: World) -> dict[str, Obstacle | None]:
    """By node."""
    board = unlimited(lay_out(world))
    explainer = Explainer(board)
    return {slot.node: explainer.obstacle(slot) for slot in board.slots}


def misled(world: World) -> Iterator[str]:
    """Nodes of which the explanation says that something is in the way and the planner acts, or nothing and it does
    not."""
    board = unlimited(lay_out(world))
    acted, explainer = acted_on(board), Explainer(board)
    for slot in board.slots:
        one = explainer.explain(slot)
        if one.state in DONE or (one.obstacle is not None and crowded(board, slot)):
            continue
        if (slot.node in acted) is not (one.obstacle is None):
            does = "acts" if slot.node in acted else "does nothing"
            yield f"{slot.node} is {one.state} with obstacle {one.obstacle}, and the planner {does} there"


def misnamed(world: World) -> Iterator[str]:
    """Nodes for which one obstacle after the other is removed, each once, and the planner does not act in the end."""
    for slot in lay_out(world).slots:
        now, seen = world, list[Obstacle]()
        while (explained := _explained(now, slot.node)) is not None:
            board, one, state, obstacle = explained
            if obstacle is None or obstacle is Obstacle.UNSTORED:
                done = state in DONE or one.fit is not Fit.RUN
                if obstacle is None and not done and slot.node not in acted_on(board):
                    yield f"{slot.node}: without {_names(seen)} nothing is in the way, and the planner does nothing"
                break
            if obstacle in seen:
                yield f"{slot.node}: {obstacle} is there still, without {_names(seen)}"
                break
            seen.append(obstacle)
            now = REMOVALS[obstacle](now, slot.node)


def _explained(world: World, node: str) -> tuple[Board, Slot, NodeState, Obstacle | None] | None:
    board = unlimited(lay_out(world))
    slot = next((found for found in board.slots if found.node == node), None)
    if slot is None:
        return None
    one = Explainer(board).explain(slot)
    return board, slot, one.state, one.obstacle


def _names(obstacles: list[Obstacle]) -> str:
    return ", ".join(obstacles) or "any obstacle"


def with_spec(world: World, **fields: object) -> World:
    """With other fields of the spec."""
    changed = replace(world.daemonset, spec=replace(world.daemonset.spec, **fields))
    return replace(world, daemonset=changed, rules=compiled(changed))


def rolling(world: World, **fields: object) -> World:
    strategy = world.daemonset.spec.update_strategy
    rolling = replace(strategy.rolling_update or RollingUpdate(), **fields)
    return with_spec(world, update_strategy=replace(strategy, rolling_update=rolling, type="RollingUpdate"))


def _cleared(world: World, node: str) -> World:
    """Nothing is left alone any more, and everything is answered."""
    return replace(world, held_back={}, awaited=frozenset())


def _pulled(world: World, node: str) -> World:
    return replace(world, unpulled={})


def _unhooked(world: World, node: str) -> World:
    return with_spec(world, lifecycle=None)


def _placed(world: World, node: str) -> World:
    """Every older revision runs wherever the current one does."""
    return replace(world, placements={one.uid: world.rules for one in world.revisions})


def _gone(world: World, node: str) -> World:
    return replace(world, pods=tuple(one for one in world.pods if one.node != node or not one.dying))


def _untainted(world: World, node: str) -> World:
    nodes = tuple(replace(one, taints=()) if one.name == node else one for one in world.nodes)
    return replace(world, nodes=nodes)


def _ready(world: World, node: str) -> World:
    """Every pod on the node is available, and nothing is done to it."""
    pods = tuple(
        replace(
            one,
            ready=True,
            ready_since=world.now - 3600,
            restarted_at=None,
            phase="Running",
            problem=None,
            underway=None,
            gates=tuple(replace(gate, open=True, draining=False) for gate in one.gates),
        )
        if one.node == node and not one.ended
        else one
        for one in world.pods
    )
    return replace(world, pods=pods)


def _undrained(world: World, node: str) -> World:
    """Nobody asks for a grace period any more."""
    return replace(world, daemonset=replace(world.daemonset, annotations={}))


REMOVALS: Final[Mapping[Obstacle, Callable[[World, str], World]]] = {
    Obstacle.PARTITION: lambda world, node: rolling(world, partition=0),
    Obstacle.SELECTOR: lambda world, node: rolling(world, selector=None),
    Obstacle.PAUSED: lambda world, node: rolling(world, paused=False),
    Obstacle.ON_DELETE: lambda world, node: rolling(world),
    Obstacle.SCALING: lambda world, node: rolling(world, partition=0),
    Obstacle.PLACEMENT: _placed,
    Obstacle.TAINTED: _untainted,
    Obstacle.HOOK: _unhooked,
    Obstacle.UNREACHABLE: _untainted,
    Obstacle.REFUSED: lambda world, node: replace(world, verdicts=dict.fromkeys(world.verdicts, Accepted())),
    Obstacle.ADOPTABLE: lambda world, node: replace(world, orphans=()),
    Obstacle.STRAY: lambda world, node: replace(
        world, pods=tuple(p for p in world.pods if p.uid not in world.strays)
    ),
    Obstacle.HELD_BACK: _cleared,
    Obstacle.UNANSWERED: _cleared,
    Obstacle.RESOURCE_QUOTA: _cleared,
    Obstacle.BACK_OFF: lambda world, node: replace(world, not_before={}),
    Obstacle.TERMINATING: _gone,
    Obstacle.STARTING: _ready,
    Obstacle.DRAINING: _undrained,
    Obstacle.RESTARTING: _ready,
    Obstacle.RESIZING: _ready,
    Obstacle.UNRESIZED: _ready,
    Obstacle.PULLING: _pulled,
    Obstacle.UNPULLED: _pulled,
    Obstacle.STALE: lambda world, node: replace(world, fresh=True),
}
"""What ends each: the world without it. The budget is lifted anyway, and the planner itself stores a revision."""
