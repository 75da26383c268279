"""A node without an obstacle is one on which the planner acts next, given budget; the one named would keep it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from hypothesis import given, note
from hypothesis import strategies as st
from msgspec.structs import replace

from controller.api.daemonset import Lifecycle, LifecycleHook, RollingUpdate, ScaleStrategy
from controller.planner.actions import CreatePod, DeletePod, ProbeTemplate, Why
from controller.planner.board import Board, lay_out
from controller.planner.eligibility import Fit
from controller.planner.explanation import Explainer
from controller.planner.obstacles import Obstacle
from controller.planner.placement import place
from controller.planner.plan import plan
from controller.planner.retries import ROOM, place_of_probe
from controller.planner.rollout import roll_out
from controller.planner.slot import Slot
from controller.planner.states import NodeState
from controller.planner.validation import compiled
from controller.planner.world import World
from tests.beds.picture import picture
from tests.beds.random_worlds import NAMES, often, surges, worlds
from tests.beds.worlds import NOW
from tests.properties.size import every_day

EVERY_POD: Final = LifecycleHook(labels_handler={"app": "demo"})
DONE: Final = (NodeState.UPDATED, NodeState.UNPLANNED, NodeState.EXCLUDED)


@st.composite
def obstructed(draw: st.DrawFn) -> World:
    """Any world, and more often than elsewhere one in which hooks hold, new nodes wait, and writes have failed."""
    world = draw(st.one_of(worlds(), surges()))
    if draw(often(False, True)):
        world = _with(world, lifecycle=Lifecycle(pre_delete=draw(st.sampled_from([EVERY_POD, None]))))
    if draw(often(False, True)):
        left = [one for one in world.pods if one.node not in draw(st.sampled_from([NAMES[:1], NAMES[1:4]]))]
        world = _rolling(_with(world, scale_strategy=ScaleStrategy(partitioned_scaling=True)), partition=2)
        world = replace(world, pods=tuple(left), predecessors={})
    probe = place_of_probe(lay_out(world).revision.hash)
    places = [*(one.name for one in world.nodes), *(one.uid for one in world.pods), ROOM, ROOM, probe]
    held = draw(often((), *((one,) for one in places)))
    return replace(world, held_back=dict.fromkeys(held, NOW + 30))


def _with(world: World, **fields: object) -> World:
    """With other fields of the spec."""
    changed = replace(world.daemonset, spec=replace(world.daemonset.spec, **fields))
    return replace(world, daemonset=changed, rules=compiled(changed))


def unlimited(board: Board) -> Board:
    """The same with more budget than there are nodes."""
    most = len(board.slots) + len(board.world.pods) + 1
    surge = most if board.surging else 0
    return replace(board, budget=replace(board.budget, max_unavailable=most, max_surge=surge, burst=most))


def crowded(board: Board, slot: Slot) -> bool:
    """Whether a surge there waits for pods beside the old one to go."""
    return board.surging and slot.only_old and (board.awaits_retry(slot) or not slot.single)


def acted_on(board: Board) -> set[str]:
    """Nodes on which placement or update would act: in this pass, or in the next if nothing else came in between.

    Not where only something beside the pod in question is removed.
    """
    slots = {slot.node: slot for slot in board.slots}
    found: set[str] = set()
    for action in (*place(board).actions, *roll_out(board).actions) if board.world.fresh else ():
        match action:
            case CreatePod(node=node) | DeletePod(node=node, why=Why.OUTDATED | Why.SURGED):
                found.add(node)
            case DeletePod(node=node, pod=pod):
                slot = slots[node]
                one_of_two = slot.paired and pod.uid in {one.uid for one in (slot.current, slot.old) if one}
                if one_of_two or crowded(board, slot) or not (slot.current or slot.old):
                    found.add(node)
            case ProbeTemplate() if not board.refusal:
                answer = {**board.world.verdicts, board.revision.hash: ""}
                found |= acted_on(replace(board, world=replace(board.world, verdicts=answer)))
    return found


@every_day(150)
@given(world=obstructed())
def test_no_obstacle_means_that_the_planner_acts(world: World) -> None:
    board = unlimited(lay_out(world))
    acted, explainer = acted_on(board), Explainer(board)
    note(picture(world, plan(world)))
    for slot in board.slots:
        one = explainer.explain(slot)
        if one.state in DONE:
            continue
        note(f"{slot.node}: {one.state}, {one.obstacle}")
        if one.obstacle is None or not crowded(board, slot):
            assert (slot.node in acted) is (one.obstacle is None), f"{slot.node} {one.obstacle}"


def _rolling(world: World, **fields: object) -> World:
    strategy = world.daemonset.spec.update_strategy
    rolling = replace(strategy.rolling_update or RollingUpdate(), **fields)
    return _with(world, update_strategy=replace(strategy, rolling_update=rolling, type="RollingUpdate"))


def _cleared(world: World, node: str) -> World:
    """Nothing is left alone any more."""
    return replace(world, held_back={})


def _unhooked(world: World, node: str) -> World:
    return _with(world, lifecycle=None)


def _placed(world: World, node: str) -> World:
    """Every older revision runs wherever the current one does."""
    return replace(world, placements={one.uid: world.rules for one in world.revisions})


def _gone(world: World, node: str) -> World:
    return replace(world, pods=tuple(one for one in world.pods if one.node != node or not one.dying))


def _untainted(world: World, node: str) -> World:
    nodes = tuple(replace(one, taints=()) if one.name == node else one for one in world.nodes)
    return replace(world, nodes=nodes)


def _ready(world: World, node: str) -> World:
    """Every pod on the node is available."""
    pods = tuple(
        replace(one, ready=True, ready_since=NOW - 3600, phase="Running")
        if one.node == node and not one.ended
        else one
        for one in world.pods
    )
    return replace(world, pods=pods)


REMOVALS: Final[Mapping[Obstacle, Callable[[World, str], World]]] = {
    Obstacle.PARTITION: lambda world, node: _rolling(world, partition=0),
    Obstacle.SELECTOR: lambda world, node: _rolling(world, selector=None),
    Obstacle.PAUSED: lambda world, node: _rolling(world, paused=False),
    Obstacle.ON_DELETE: lambda world, node: _rolling(world),
    Obstacle.SCALING: lambda world, node: _rolling(world, partition=0),
    Obstacle.PLACEMENT: _placed,
    Obstacle.TAINTED: _untainted,
    Obstacle.HOOK: _unhooked,
    Obstacle.UNREACHABLE: _untainted,
    Obstacle.REFUSED: lambda world, node: replace(world, verdicts=dict.fromkeys(world.verdicts, "")),
    Obstacle.HELD_BACK: _cleared,
    Obstacle.QUOTA: _cleared,
    Obstacle.BACK_OFF: lambda world, node: replace(world, not_before={}),
    Obstacle.TERMINATING: _gone,
    Obstacle.STARTING: _ready,
    Obstacle.STALE: lambda world, node: replace(world, fresh=True),
}
"""What ends each: the world without it. The budget is lifted anyway, and the planner itself stores a revision."""


@every_day(150)
@given(world=obstructed())
def test_the_obstacle_named_is_the_one_whose_removal_makes_the_planner_act(world: World) -> None:
    """Or the next one is named, which was hidden behind it; one after the other, each once."""
    for slot in lay_out(world).slots:
        now, seen = world, set[Obstacle]()
        while True:
            board = unlimited(lay_out(now))
            one = next((found for found in board.slots if found.node == slot.node), None)
            if one is None:
                break
            explained = Explainer(board).explain(one)
            if explained.obstacle is None or explained.obstacle is Obstacle.UNSTORED:
                stored = explained.obstacle is None
                done = explained.state in DONE or one.fit is not Fit.RUN
                assert done or not stored or slot.node in acted_on(board), f"{slot.node} after {seen}"
                break
            assert explained.obstacle not in seen, f"{slot.node}: {explained.obstacle} is there still, after {seen}"
            seen.add(explained.obstacle)
            note(f"{slot.node}: {explained.obstacle}")
            now = REMOVALS[explained.obstacle](now, slot.node)


def test_each_obstacle_has_a_way_to_end_it() -> None:
    assert set(REMOVALS) == set(Obstacle) - {Obstacle.BUDGET, Obstacle.UNSTORED}
