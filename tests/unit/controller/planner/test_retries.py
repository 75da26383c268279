"""What failed before comes after everything that did not, and never takes its turn or its budget."""

from __future__ import annotations

import msgspec

from controller.planner.actions import CreatePod, DeletePod
from controller.planner.place import Place
from controller.planner.plan import plan
from controller.planner.retries import RETRIES
from controller.planner.world import World
from tests.beds.picture import check
from tests.beds.worlds import ago, ds, everywhere, pod, world


def failed(case: World, *places: Place) -> World:
    """The same where writes failed at these places and may be tried again: the first one for the longest time."""
    due = {place: ago(100 - number) for number, place in enumerate(places)}
    return msgspec.structs.replace(case, due_again=due)


def made_on(case: World) -> list[str]:
    return [action.node for action in plan(case).actions if isinstance(action, CreatePod)]


def test_a_node_where_a_create_failed_is_tried_after_all_others() -> None:
    case = world(ds("v1"), nodes=4)
    assert made_on(failed(case, Place.of_node("node-0")))[-1] == "node-0"


def test_within_the_burst_the_others_come_first() -> None:
    case = world(ds("v1", burst=2), nodes=4)
    assert set(made_on(failed(case, Place.of_node("node-0"), Place.of_node("node-1")))) == {"node-2", "node-3"}


def test_of_many_failed_nodes_the_longest_due_are_tried_again_first() -> None:
    names = [f"node-{number}" for number in range(2 * RETRIES)]
    case = failed(world(ds("v1"), nodes=names), *map(Place.of_node, reversed(names)))
    decided = plan(case)
    assert made_on(case) == list(reversed(names))[:RETRIES]
    assert decided.more


def test_while_creates_fail_neighbours_do_not_follow_each_other() -> None:
    """Of a hundred nodes that sort first and fail, one that would not is met soon."""
    names = [f"node-{number:03}" for number in range(200)]
    case = failed(world(ds("v1"), nodes=names), Place.of_node("node-000"))
    first = made_on(case)[:20]
    assert any(name >= "node-100" for name in first)
    assert made_on(world(ds("v1"), nodes=names)) == names, "in order while nothing fails"


def test_a_pod_that_could_not_be_deleted_takes_no_budget_from_the_others() -> None:
    pods = everywhere(4)
    case = world(ds("v2"), nodes=4, pods=pods)
    check(case, "-node-3 v1")
    check(failed(case, Place.of_object(pods[3].uid)), "-node-2 v1")
    check(failed(case, *(Place.of_object(one.uid) for one in pods)), "-node-0 v1")


def test_while_surging_a_node_without_a_second_pod_takes_no_budget() -> None:
    case = world(ds("v2", max_surge=1), nodes=4, pods=everywhere(4))
    check(case, "+node-3 v2")
    check(failed(case, Place.of_node("node-3")), "+node-2 v2")


def test_after_a_refusal_the_dry_run_is_about_another_node() -> None:
    case = world(ds("v2"), nodes=4, pods=everywhere(4), verdicts={})
    asked = set()
    for refusals in range(6):
        (probe,) = plan(msgspec.structs.replace(case, asked=refusals)).actions
        asked.add(getattr(probe, "node", ""))
        assert (getattr(probe, "node", "") == "node-3") is (refusals == 0)
    assert len(asked) > 2
    (probe,) = plan(
        msgspec.structs.replace(world(ds("v2"), nodes=1, pods=[pod("node-0")], verdicts={}), asked=1)
    ).actions
    assert not isinstance(probe, CreatePod | DeletePod), "the only node is asked about again"
