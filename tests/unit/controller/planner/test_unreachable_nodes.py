"""Which unreachable nodes a rollout waits for: `rollingUpdate.unreachableNodes`."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api.daemonset import UnreachableNodes
from controller.api.formats import IntOrPercent
from controller.planner.plan import plan
from controller.planner.rollout_state import rollout_state
from controller.planner.world import World
from tests.beds.toy_cluster import ToyCluster
from tests.beds.worlds import LONG, ago, check, ds, node, pod, status_in, taint, world
from tests.unit.controller.planner.test_topology import blocked, said

UNREACHABLE = taint("node.kubernetes.io/unreachable", "NoExecute")


def lacking(*lost: int, leave_out: IntOrPercent | None = None, count: int = 4, **how: Any) -> World:
    """v2 is to be rolled out, and contact with some nodes is lost."""
    nodes = [node(f"node-{n}", *([UNREACHABLE] if n in lost else [])) for n in range(count)]
    pods = [pod(f"node-{n}", ready=None if n in lost else ago(LONG)) for n in range(count)]
    rolling = None if leave_out is None else {"unreachable_nodes": UnreachableNodes(leave_out=leave_out)}
    return world(ds("v2", rolling=rolling, **how), nodes=nodes, pods=pods)


@pytest.mark.parametrize(
    ("start", "taken"),
    [
        (lacking(3), ""),
        (lacking(3, leave_out=0), ""),
        (lacking(3, leave_out="20%"), ""),
        (lacking(3, leave_out=1), "-node-2 v1"),
        (lacking(3, leave_out="25%"), "-node-2 v1"),
        (lacking(3, 2, leave_out=1, max_unavailable=4), ""),
        (lacking(3, 2, leave_out=2, max_unavailable=2), "-node-1 v1, -node-0 v1"),
        (lacking(3, leave_out=1, max_unavailable=4, partition=3), "-node-2 v1"),
    ],
    ids=[
        "without the field it uses maxUnavailable",
        "0 is the default",
        "a percentage rounds down, here to 0",
        "one left out uses no maxUnavailable",
        "a percentage",
        "too many: nothing is updated",
        "two left out",
        "it takes no place that the partition leaves",
    ],
)
def test_unreachable_nodes_that_are_left_out_hold_nothing_up(start: World, taken: str) -> None:
    check(start, *filter(None, taken.split(", ")))


def test_the_rollout_is_complete_without_them_and_they_are_updated_when_they_are_back() -> None:
    cluster = ToyCluster(lacking(3, leave_out=1, max_unavailable=3), dead=["node-3"])
    cluster.expect("-node-2 v1, -node-1 v1, -node-0 v1", "+node-0 v2, +node-1 v2, +node-2 v2", "")
    cluster.ready()
    cluster.expect("")
    status = cluster.status
    assert (status.rollout.phase, status.rollout.done, status.rollout.target, status.rollout.left_out) == (
        "Healthy", 3, 4, 1,
    )  # fmt: skip
    assert status.rollout.completion_time
    assert said(cluster.plan, "Ready")[:2] == ("True", "Healthy")
    assert said(cluster.plan, "Ready")[2].endswith("; 1 unreachable node is left out")
    assert said(cluster.plan, "Progressing")[1] == "RolloutComplete"
    cluster.set_nodes(node("node-3"))
    cluster.dead.clear()
    cluster.expect("-node-3 v1")
    assert cluster.status.rollout.phase == "Progressing"


def test_one_that_was_updated_and_is_lost_afterwards_is_left_out_too() -> None:
    start = lacking(leave_out=1)
    lost = [node("node-0", UNREACHABLE), *(node(f"node-{n}") for n in range(1, 4))]
    pods = [pod("node-0", "v2", ready=None), *(pod(f"node-{n}", "v2") for n in range(1, 4))]
    decided = plan(world(start.daemonset, nodes=lost, pods=pods))
    assert status_in(decided).rollout.phase == "Healthy"


def test_too_many_are_waited_for_and_the_rollout_does_not_stall() -> None:
    decided = plan(lacking(3, 2, leave_out=1, max_unavailable=4))
    assert status_in(decided).rollout.nodes_unreachable_since
    status, reason, message = said(decided, "Progressing")
    assert (status, reason) == ("True", "TooManyUnreachableNodes")
    assert blocked(decided) == {"TooManyUnreachableNodes"}
    assert "2 nodes are unreachable, and unreachableNodes.leaveOut is 1" in message
    assert said(decided, "Stalled")[0] == "False"


def test_beside_a_pod_that_fails_too_many_do_not_stop_the_deadline() -> None:
    start = lacking(3, 2, leave_out=1)
    pods = (pod("node-0", "v2", ready=None), *start.pods[1:])
    decided = plan(world(start.daemonset, nodes=start.nodes, pods=pods))
    assert status_in(decided).rollout.nodes_unreachable_since is None


def test_where_others_use_up_the_budget_it_does_not_wait_for_them_only() -> None:
    start = lacking(3, partition=1)
    kept = pod("node-0", ready=None)
    assert status_in(plan(start)).rollout.nodes_unreachable_since
    decided = plan(world(start.daemonset, nodes=start.nodes, pods=(kept, *start.pods[1:])))
    assert status_in(decided).rollout.nodes_unreachable_since is None


def test_while_an_old_pod_leaves_for_good_it_does_not_wait_for_them_only() -> None:
    start = lacking(0, count=2, max_surge=1)
    pods = (start.pods[0], pod("node-1", "v2"))
    alone = plan(world(start.daemonset, nodes=start.nodes, pods=pods))
    assert status_in(alone).rollout.nodes_unreachable_since
    nodes = (*start.nodes, node("node-2", taint("x")))
    decided = plan(world(start.daemonset, nodes=nodes, pods=(*pods, pod("node-2", ready=None))))
    assert status_in(decided).rollout.nodes_unreachable_since is None


def test_while_surging_no_second_pod_is_made_on_them() -> None:
    start = lacking(3, leave_out=1, max_surge=2)
    check(start, "+node-2 v2", "+node-1 v2")
    assert rollout_state(start).left_out == {"node-3"}
