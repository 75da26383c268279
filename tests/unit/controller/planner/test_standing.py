"""Where the nodes of one world stand: what is to be updated, what is done, and what is kept."""

from __future__ import annotations

import pytest

from controller.planner.board import lay_out
from controller.planner.phase import Standing
from controller.planner.progress import standing_of
from controller.planner.world import World
from tests.beds.dry_runs import refusing
from tests.beds.worlds import ds, everywhere, node, pod, revision, served, taint, world
from tests.unit.controller.planner.test_partition import CANARY


def facts(of: World) -> Standing:
    return standing_of(lay_out(of), observed=True)


def test_old_nodes_below_the_target_are_outdated_and_the_others_kept() -> None:
    pods = (*served("node-3", "node-4", rev="v2"), *served("node-0", "node-1", "node-2"))
    there = facts(world(ds("v2", partition=2), pods=pods))
    assert (there.target, there.updated, there.done, there.outdated, there.kept) == (3, 2, 2, 1, 2)


def test_the_selector_keeps_those_it_leaves_out() -> None:
    nodes = [node("node-0", labels=CANARY), "node-1", "node-2"]
    there = facts(world(ds("v2", selector=CANARY), nodes=nodes, pods=everywhere(3)))
    assert (there.target, there.outdated, there.kept) == (1, 1, 2)


@pytest.mark.parametrize("paused", [False, True])
def test_a_pause_takes_nothing_from_the_target(paused: bool) -> None:
    pods = (*served("node-4", rev="v2"), *served("node-0", "node-1", "node-2", "node-3"))
    there = facts(world(ds("v2", paused=paused, partition=1), pods=pods))
    assert (there.target, there.outdated, there.kept, there.paused) == (4, 3, 1, paused)


def test_on_delete_all_may_be_updated() -> None:
    there = facts(world(ds("v2", on_delete=True), pods=everywhere(5)))
    assert (there.target, there.outdated, there.kept, there.on_delete) == (5, 5, 0, True)


def test_at_a_first_deployment_nobody_is_kept() -> None:
    there = facts(world(ds(partition=3, selector=CANARY, paused=True), pods=()))
    assert (there.target, there.updated, there.outdated, there.kept) == (5, 0, 0, 0)


def test_with_partitioned_scaling_a_first_partition_keeps_nodes_waiting() -> None:
    first = ds(partition=3, partitioned_scaling=True, selector=CANARY, paused=True)
    there = facts(world(first, pods=served("node-0", "node-1")))
    assert (there.target, there.done, there.kept) == (2, 2, 3)


def test_old_pods_of_an_unknown_revision_are_kept_by_the_partition() -> None:
    """No older revision is stored, and yet it is no first deployment for nodes that have a pod."""
    there = facts(world(ds("v2", partition=2), pods=everywhere(5), revisions=[revision("v2")]))
    assert (there.target, there.outdated, there.kept) == (3, 3, 2)


def test_a_node_is_done_when_the_new_pod_is_available_and_the_old_one_gone() -> None:
    pods = [pod("node-0"), pod("node-0", "v2"), pod("node-1", "v2", ready=None), pod("node-2", "v2")]
    there = facts(world(ds("v2", max_surge=1), nodes=3, pods=pods))
    assert (there.updated, there.done, there.available) == (3, 1, 2)


def test_a_node_that_lost_its_kept_pod_is_still_kept() -> None:
    pods = served("node-2", "node-1", rev="v2")
    there = facts(world(ds("v2", partition=1), nodes=3, pods=pods, revisions=[revision("v1"), revision("v2")]))
    assert (there.target, there.done, there.kept) == (2, 2, 1)


def test_nodes_that_should_run_none_do_not_count() -> None:
    nodes = ["node-0", node("node-1", taint("x")), node("node-2", taint("x", "NoExecute"))]
    there = facts(world(ds("v2"), nodes=nodes, pods=everywhere(3)))
    assert (there.desired, there.target, there.outdated, there.available) == (1, 1, 1, 1)


def test_a_refusal_counts_while_something_is_left_to_update() -> None:
    assert facts(world(ds("v2"), pods=everywhere(5), verdicts=refusing("v2"))).refused == "no"
    assert facts(world(ds("v2"), pods=everywhere(5, "v2"), verdicts=refusing("v2"))).refused == ""
