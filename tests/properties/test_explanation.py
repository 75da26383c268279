"""A node without a blocker is one on which the planner acts next, given budget; the one named would keep it."""

from __future__ import annotations

from math import inf
from typing import Final

from hypothesis import given, note
from hypothesis import strategies as st
from msgspec.structs import replace

from controller.api.daemonset import Lifecycle, LifecycleHook, ScaleStrategy
from controller.planner.blocker_texts import Blocker
from controller.planner.explanation import Explainer
from controller.planner.plan import plan
from controller.planner.rollout_state import rollout_state
from controller.planner.world import POD_QUOTA, BackoffKey, BeingPulled, Unpullable, World
from tests.beds.random_worlds import NAMES, often, surges, worlds
from tests.beds.worlds import NOW, picture
from tests.properties.explanation_law import REMOVALS, misled, misnamed, rolling, with_spec
from tests.properties.size import every_day

ANY: Final = st.one_of(worlds(), surges())
EVERY_POD: Final = LifecycleHook(labels_handler={"app": "demo"})

UNPULLED = [BeingPulled(), Unpullable(why="not found")]


@st.composite
def obstructed(draw: st.DrawFn, worlds: st.SearchStrategy[World]) -> World:
    """One of these worlds, and often one in which hooks hold, new nodes wait, and writes have failed."""
    world = draw(worlds)
    if draw(often(False, True)):
        world = with_spec(world, lifecycle=Lifecycle(pre_delete=draw(st.sampled_from([EVERY_POD, None]))))
    if draw(often(False, True)):
        left = [one for one in world.pods if one.node not in draw(st.sampled_from([NAMES[:1], NAMES[1:4]]))]
        world = rolling(with_spec(world, scale_strategy=ScaleStrategy(partitioned_scaling=True)), partition=2)
        world = replace(world, pods=tuple(left), predecessors={})
    unpulled = draw(often({}, {one.name: draw(st.sampled_from(UNPULLED)) for one in world.nodes[:3]}))
    world = replace(world, unpulled=unpulled)
    probe = BackoffKey("template", rollout_state(world).revision.hash)
    nodes = [BackoffKey("node", one.name) for one in world.nodes]
    places = [*nodes, *(BackoffKey("object", one.uid) for one in world.pods), POD_QUOTA, POD_QUOTA, probe]
    held = draw(often((), *((one,) for one in places)))
    if draw(st.booleans()):
        return replace(world, in_backoff=dict.fromkeys(held, inf), in_flight=frozenset(held) - {POD_QUOTA})
    return replace(world, in_backoff=dict.fromkeys(held, NOW + 30))


@every_day(150)
@given(world=obstructed(ANY))
def test_no_obstacle_means_that_the_planner_acts(world: World) -> None:
    note(picture(world, plan(world)))
    assert list(misled(world)) == []


@every_day(150)
@given(world=obstructed(ANY))
def test_what_may_keep_nodes_is_known_without_asking_any(world: World) -> None:
    note(picture(world, plan(world)))
    explainer = Explainer(rollout_state(world))
    assert {explainer.hold(node) for node in explainer.rollout.nodes} <= {*explainer.possible_holds, None}


@every_day(80)
@given(world=obstructed(worlds(in_place=True)))
def test_so_it_is_in_the_midst_of_updates_in_place(world: World) -> None:
    note(picture(world, plan(world)))
    assert list(misled(world)) == []
    assert list(misnamed(world)) == []


@every_day(150)
@given(world=obstructed(ANY))
def test_the_obstacle_named_is_the_one_whose_removal_makes_the_planner_act(world: World) -> None:
    """Or the next one is named, which was hidden behind it; one after the other, each once."""
    note(picture(world, plan(world)))
    assert list(misnamed(world)) == []


def test_each_obstacle_has_a_way_to_end_it() -> None:
    assert set(REMOVALS) == set(Blocker) - {Blocker.BUDGET, Blocker.UNSTORED}
