"""Which nodes may hold the new revision: partition, selector, pause."""

from __future__ import annotations

import pytest

from controller.api.formats import IntOrPercent
from controller.api.node import Node
from controller.planner.rollout_state import rollout_state
from controller.planner.world import World
from tests.beds.toy_cluster import ToyCluster
from tests.beds.worlds import check, ds, everywhere, node, pod, revision, served, world

CANARY = {"track": "canary"}


def canaries(*names: str, of: int) -> list[Node]:
    """Nodes n1 … n`of`; those named carry the canary label."""
    every = [f"n{number}" for number in range(1, of + 1)]
    return [node(name, labels=CANARY if name in names else None) for name in every]


def allowed(of: World) -> list[str]:
    return [node.name for node in rollout_state(of).may_hold_current]


def test_without_partition_updated_nodes_are_first_then_descending() -> None:
    pods = [pod("n1"), pod("n2", "v2"), pod("n3")]
    assert allowed(world(ds("v2"), nodes=["n1", "n2", "n3"], pods=pods)) == ["n2", "n3", "n1"]


def test_updated_nodes_fill_the_quota_first() -> None:
    pods = [pod("n1", "v2"), pod("n2"), pod("n3")]
    assert allowed(world(ds("v2", partition=1), nodes=["n1", "n2", "n3"], pods=pods)) == ["n1", "n3"]


def test_selected_nodes_come_after_the_updated_ones() -> None:
    pods = [pod("n1"), pod("n2", "v2"), pod("n3"), pod("n4")]
    canary = world(ds("v2", partition=1, selector=CANARY), nodes=canaries("n3", of=4), pods=pods)
    assert allowed(canary) == ["n2", "n3"]


def test_a_node_whose_pod_terminates_is_selected_like_any_other() -> None:
    pods = [pod("n1"), pod("n2", "v2"), pod("n3", terminating=True), pod("n4")]
    canary = world(ds("v2", selector=CANARY), nodes=canaries("n1", "n3", of=4), pods=pods)
    assert allowed(canary) == ["n2", "n3", "n1"]


def test_the_partition_counts_over_all_nodes_not_over_the_selected_ones() -> None:
    """6 nodes, 2 updated and not selected, partition 3, the 4 others selected."""
    pods = [*served("n1", "n2", rev="v2"), *served("n3", "n4", "n5", "n6")]
    chosen = canaries("n3", "n4", "n5", "n6", of=6)
    assert allowed(world(ds("v2", partition=3, selector=CANARY), nodes=chosen, pods=pods)) == ["n2", "n1", "n6"]


def test_walking_the_partition_down() -> None:
    cluster = ToyCluster(world(ds("v1"), nodes=10, pods=everywhere(10)))

    def partition(value: IntOrPercent) -> None:
        cluster.edit(ds("v2", max_unavailable=2, partition=value))

    partition(10)
    cluster.expect("")
    partition(9)
    cluster.expect("-node-9 v1", "+node-9 v2", "")
    cluster.ready()
    cluster.expect("")
    partition(5)
    cluster.expect("-node-8 v1, -node-7 v1", "+node-7 v2, +node-8 v2", "")
    cluster.ready()
    cluster.expect("-node-6 v1, -node-5 v1", "+node-5 v2, +node-6 v2", "")
    cluster.ready()
    cluster.expect("")
    partition(100)
    cluster.expect("")
    partition(0)
    cluster.expect("-node-4 v1, -node-3 v1", "+node-3 v2, +node-4 v2")
    cluster.ready()
    cluster.expect("-node-2 v1, -node-1 v1", "+node-1 v2, +node-2 v2")
    cluster.ready()
    cluster.expect("-node-0 v1", "+node-0 v2", "")


@pytest.mark.parametrize(
    ("nodes", "partition", "kept"), [(10, "35%", 3), (5, "30%", 1), (5, "100%", 5), (3, "0%", 0)]
)
def test_a_percentage_keeps_its_floor(nodes: int, partition: str, kept: int) -> None:
    cluster = ToyCluster(world(ds("v1"), nodes=nodes, pods=everywhere(nodes)))
    cluster.edit(ds("v2", max_unavailable="100%", partition=partition))
    cluster.settle()
    assert [name for name, rev in cluster.revisions().items() if rev == "v1"] == [f"node-{n}" for n in range(kept)]


def test_raising_the_partition_or_taking_the_label_away_rolls_nothing_back() -> None:
    pods = [pod("n1"), pod("n2", "v2")]
    check(world(ds("v2", partition=2), nodes=["n1", "n2"], pods=pods))
    check(world(ds("v2", selector=CANARY), nodes=["n1", "n2"], pods=pods))


def test_on_delete_knows_no_quota() -> None:
    two = [revision("v1"), revision("v2")]
    check(world(ds("v2", on_delete=True), nodes=1, revisions=two), "+node-0 v2")


def test_going_back_under_a_partition_moves_nobody_until_it_is_lowered() -> None:
    """What is left of the abandoned revision counts as the old one then, and the partition keeps that many."""
    pods = [*served("n1", "n2", "n3"), *served("n4", "n5", rev="v2")]
    nodes = ["n1", "n2", "n3", "n4", "n5"]
    back = [revision("v1", 3), revision("v2", 2)]
    check(world(ds("v1", partition=3), nodes=nodes, pods=pods, revisions=back))
    check(world(ds("v1", partition=0, max_unavailable=2), nodes=nodes, pods=pods, revisions=back), "-n5 v2", "-n4 v2")


def test_while_paused_no_pod_is_updated_and_the_status_says_so() -> None:
    decided = check(world(ds("v2", paused=True), pods=everywhere(5, ready=None)))
    assert decided.status is not None
    assert decided.status.revision_hash == "v2"
    [progressing] = [one for one in decided.status.conditions if one.type == "Progressing"]
    assert progressing.reason == "Paused"


def test_paused_a_node_that_leaves_still_loses_its_pod() -> None:
    blue = {"color": "blue"}
    nodes = [node("node-0", labels=blue), node("node-1")]
    check(world(ds("v2", paused=True, nodeSelector=blue), nodes=nodes, pods=everywhere(2)), "-node-1 v1")


def test_an_unavailable_pod_outside_the_canaries_uses_their_budget() -> None:
    nodes = canaries("n3", "n4", of=4)
    pods = [pod("n1", ready=None), *served("n2", "n3", "n4")]
    cluster = ToyCluster(world(ds("v2", selector=CANARY), nodes=nodes, pods=pods))
    cluster.expect("")
    cluster.ready("n1")
    cluster.expect("-n4 v1", "+n4 v2", "")


def test_only_canaries_are_updated() -> None:
    nodes = canaries("n2", of=3)
    cluster = ToyCluster(
        world(ds("v2", selector=CANARY, max_unavailable=3), nodes=nodes, pods=served("n1", "n2", "n3"))
    )
    cluster.expect("-n2 v1", "+n2 v2", "")
    cluster.ready()
    cluster.expect("")


def test_partition_and_selector_hold_adopted_pods_without_a_revision() -> None:
    """Pods taken over without their history are old ones like any other."""
    strangers = [pod(name, "") for name in ("n1", "n2", "n3")]
    only = [revision("v2")]
    nodes = canaries("n2", of=3)
    check(world(ds("v2", partition=3), nodes=nodes, pods=strangers, revisions=only))
    check(world(ds("v2", selector=CANARY), nodes=nodes, pods=strangers, revisions=only), "-n2 ")
