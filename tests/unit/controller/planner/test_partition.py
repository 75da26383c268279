"""Which nodes may hold the new revision: partition, selector, pause."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api.node import Node
from controller.planner.rollout_state import rollout_state
from controller.planner.world import World
from tests.beds.toy_cluster import ToyCluster
from tests.beds.worlds import at, check, ds, node, pod, revision, status_in

CANARY = {"track": "canary"}


def canaries(count: int, *numbers: int) -> list[Node]:
    """So many nodes, of which these carry the canary label."""
    return [node(f"node-{number}", labels=CANARY if number in numbers else None) for number in range(count)]


def allowed(state: str, **fields: Any) -> list[str]:
    return [node.name.removeprefix("node-") for node in rollout_state(at(state, **fields)).may_hold_current]


def test_without_partition_updated_nodes_are_first_then_descending() -> None:
    assert allowed("v1 v2 v1") == ["1", "2", "0"]


def test_updated_nodes_fill_the_quota_first() -> None:
    assert allowed("v2 v1 v1", partition=1) == ["0", "2"]


def test_selected_nodes_come_after_the_updated_ones() -> None:
    assert allowed("v1 v2 v1 v1", partition=1, selector=CANARY, nodes=canaries(4, 2)) == ["1", "2"]


def test_a_node_whose_pod_terminates_is_selected_like_any_other() -> None:
    assert allowed("v1 v2 v1† v1", selector=CANARY, nodes=canaries(4, 0, 2)) == ["1", "2", "0"]


def test_the_partition_counts_over_all_nodes_not_over_the_selected_ones() -> None:
    nodes = canaries(6, 2, 3, 4, 5)
    assert allowed("v2 v2 v1 v1 v1 v1", partition=3, selector=CANARY, nodes=nodes) == ["1", "0", "5"]


def test_walking_the_partition_down() -> None:
    cluster = ToyCluster(at("v1 v1 v1 v1 v1 v1", "v1"))
    for partition, moved in (
        (6, ""),
        (5, "-node-5 v1, +node-5 v2"),
        (2, "-node-4 v1, -node-3 v1, +node-3 v2, +node-4 v2"),
        (2, "-node-2 v1, +node-2 v2"),
        (2, ""),
        (100, ""),
        (0, "-node-1 v1, -node-0 v1, +node-0 v2, +node-1 v2"),
    ):
        cluster.edit(ds("v2", max_unavailable=2, partition=partition))
        assert ", ".join(cluster.settle()) == moved
        cluster.ready()


@pytest.mark.parametrize(
    ("nodes", "partition", "kept"), [(10, "35%", 3), (5, "30%", 1), (5, "100%", 5), (3, "0%", 0)]
)
def test_a_percentage_keeps_its_floor(nodes: int, partition: str, kept: int) -> None:
    cluster = ToyCluster(at("v1 " * nodes, max_unavailable="100%", partition=partition))
    cluster.settle()
    assert [name for name, rev in cluster.revisions().items() if rev == "v1"] == [f"node-{n}" for n in range(kept)]


STRANGERS = [pod(f"node-{number}", "") for number in range(3)]
"""Pods taken over without their history are old ones like any other."""
BACK = [revision("v1", 3), revision("v2", 2)]
CASES: dict[str, tuple[World, str]] = {
    "raising the partition rolls nothing back": (at("v1 v2", partition=2), ""),
    "nor does taking the label away": (at("v1 v2", selector=CANARY), ""),
    "on OnDelete there is no quota": (
        at("-", on_delete=True, revisions=[revision("v1"), revision("v2")]),
        "+node-0 v2",
    ),
    "going back under a partition moves nobody": (at("v1 v1 v1 v2 v2", "v1", partition=3, revisions=BACK), ""),
    "until it is lowered": (
        at("v1 v1 v1 v2 v2", "v1", partition=0, max_unavailable=2, revisions=BACK),
        "-node-4 v2, -node-3 v2",
    ),
    "paused a node that leaves still loses its pod": (
        at("v1 v1", paused=True, nodeSelector=CANARY, nodes=canaries(2, 0)),
        "-node-1 v1",
    ),
    "the partition holds adopted pods without a revision": (
        at("- - -", partition=3, pods=STRANGERS, revisions=[revision("v2")]),
        "",
    ),
    "the selector does so too": (
        at("- - -", selector=CANARY, nodes=canaries(3, 1), pods=STRANGERS, revisions=[revision("v2")]),
        "-node-1 ",
    ),
}


@pytest.mark.parametrize(("of", "expected"), CASES.values(), ids=CASES)
def test_what_is_held(of: World, expected: str) -> None:
    check(of, expected)


def test_while_paused_no_pod_is_updated_and_the_status_says_so() -> None:
    decided = check(at("v1! v1! v1!", paused=True))
    assert status_in(decided).revision_hash == "v2"
    [progressing] = [one for one in status_in(decided).conditions if one.type == "Progressing"]
    assert progressing.reason == "Paused"


def test_an_unavailable_pod_outside_the_canaries_uses_their_budget() -> None:
    cluster = ToyCluster(at("v1! v1 v1 v1", selector=CANARY, nodes=canaries(4, 3)))
    cluster.expect("")
    cluster.ready("node-0")
    cluster.expect("-node-3 v1", "+node-3 v2", "")
    cluster.ready()
    cluster.expect("")
