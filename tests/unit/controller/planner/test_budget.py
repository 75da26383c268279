"""The budget: limits in numbers, who uses it up, and silent nodes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.api.daemonset import RollingUpdate, UpdateStrategy
from controller.api.formats import IntOrPercent
from controller.planner.rollout_state import budget_of
from tests.beds.toy_cluster import ToyCluster
from tests.beds.worlds import NOW, check, ds, everywhere, failed, node, pod, served, taint, world

UNREACHABLE = taint("node.kubernetes.io/unreachable", "NoExecute")


@pytest.mark.parametrize(
    ("desired", "max_unavailable", "max_surge", "expected"),
    [
        (2, 0, 0, (1, 0)),
        (2, None, None, (1, 0)),
        (2, "50%", None, (1, 0)),
        (3, "50%", None, (2, 0)),
        (5, 7, None, (7, 0)),
        (2, 0, "50%", (0, 1)),
        (2, 0, "100%", (0, 2)),
        (3, "0%", "0%", (1, 0)),
        (0, "50%", None, (0, 0)),
        (0, 0, 0, (0, 0)),
    ],
)
def test_limits(
    desired: int, max_unavailable: IntOrPercent | None, max_surge: IntOrPercent | None, expected: tuple[int, int]
) -> None:
    settings = RollingUpdate(max_unavailable=max_unavailable, max_surge=max_surge)
    plain = ds()
    strategy = UpdateStrategy(type="RollingUpdate", rolling_update=settings)
    budget = budget_of(replace(plain, spec=replace(plain.spec, update_strategy=strategy)), desired)
    assert (budget.max_unavailable, budget.max_surge) == expected


def test_both_limits_zero_and_no_node_does_nothing() -> None:
    check(world(ds("v2", max_unavailable=0), nodes=0))


def test_surging_means_a_surge_of_one_and_on_delete_no_surge_at_all() -> None:
    surging = budget_of(ds(rolling_update_type="Surging", max_unavailable=None), 5)
    assert (surging.max_surge, surging.max_unavailable) == (1, 0)
    assert budget_of(ds(on_delete=True), 5).max_surge == 0


def test_a_node_whose_pod_terminates_has_no_available_pod() -> None:
    pods = [pod("node-0"), pod("node-1"), pod("node-2", terminating=True)]
    check(world(ds("v2", max_unavailable="50%"), nodes=3, pods=pods), "-node-1 v1")


def test_a_node_without_a_pod_has_no_available_pod() -> None:
    """Seen while the node's failed pod waits for its back-off: otherwise placement would act first."""
    pods = [*served("node-0", "node-1"), failed("node-2", "v2")]
    check(world(ds("v2", max_unavailable=1), nodes=3, pods=pods, not_before={"node-2": NOW + 9}))
    check(world(ds("v2", max_unavailable=2), nodes=3, pods=pods, not_before={"node-2": NOW + 9}), "-node-1 v1")


def test_pods_of_silent_nodes_are_left_alone_and_use_budget() -> None:
    """Silent nodes use the budget, so one of three is left for the others."""
    nodes = ["node-0", "node-1", "node-2", node("node-3", UNREACHABLE), node("node-4", UNREACHABLE)]
    pods = [*everywhere(3), *served("node-3", "node-4", ready=None)]
    cluster = ToyCluster(world(ds("v2", max_unavailable=3), nodes=nodes, pods=pods), dead=["node-3", "node-4"])
    cluster.expect("-node-2 v1", "+node-2 v2", "")
    cluster.ready()
    cluster.expect("-node-1 v1", "+node-1 v2", "")
    cluster.ready()
    cluster.expect("-node-0 v1", "+node-0 v2", "")
    cluster.ready()
    cluster.expect("")
    assert cluster.revisions()["node-4"] == "v1", "untouched while nobody hears of it"


def test_silent_nodes_are_updated_when_they_are_back() -> None:
    nodes = ["node-0", node("node-1", UNREACHABLE)]
    pods = [pod("node-0", "v2"), pod("node-1", ready=None)]
    cluster = ToyCluster(world(ds("v2"), nodes=nodes, pods=pods), dead=["node-1"])
    cluster.expect("")
    cluster.dead.clear()
    cluster.set_nodes(node("node-1"))
    cluster.expect("-node-1 v1", "+node-1 v2")


def test_a_silent_node_last_heard_as_ready_is_left_alone() -> None:
    nodes = ["node-0", node("node-1", UNREACHABLE)]
    check(world(ds("v2"), nodes=nodes, pods=everywhere(2)))
    check(world(ds("v2", max_unavailable=2), nodes=nodes, pods=everywhere(2)), "-node-0 v1")


def test_a_node_that_is_merely_not_ready_gets_its_new_pod_at_once() -> None:
    sick = node("node-1", taint("node.kubernetes.io/not-ready", "NoExecute"))
    pods = [pod("node-0"), pod("node-1", ready=None)]
    check(world(ds("v2"), nodes=["node-0", sick], pods=pods), "-node-1 v1")
