"""What a summary counts beside the states of nodes: zones, limits, hooks, and what the partition does not allow."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.node import Node
from controller.api.pod_problem import PodProblem
from controller.planner.plan import plan
from controller.planner.world import World
from tests.beds.worlds import NOW, ago, ds, everywhere, node, pod, prepared, served, taint, world
from tests.unit.controller.planner.summed_up import HOOK, ailing, canary, states, summary


def zoned(name: str, zone: str, *taints: Any) -> Node:
    return node(name, *taints, labels={"topology.kubernetes.io/zone": zone} if zone else {})


def test_zones() -> None:
    nodes = [
        zoned("a-0", "east"),
        zoned("a-1", "east"),
        zoned("b-0", "west"),
        zoned("b-1", "west"),
        zoned("c-0", ""),
        node("d-0", labels={"failure-domain.beta.kubernetes.io/zone": "west"}),
        zoned("e-0", "nobody's", taint("x", "NoExecute")),
    ]
    pods = [
        pod("a-0"),
        ailing("a-1", PodProblem.CONFIG),
        pod("b-0", "v2"),
        pod("b-1", "v2", ready=None, created=ago(9)),
    ]
    seen = summary(world(ds("v2"), nodes=nodes, pods=[*pods, pod("c-0"), pod("d-0")]))
    assert states(seen) == ": 1 old; east: 1 failed, 1 old; west: 1 updated, 1 updating, 1 old"
    assert states(seen.at(NOW + 3600)) == ": 1 old; east: 1 failed, 1 old; west: 1 updated, 1 failed, 1 old"


def turned(**fields: Any) -> World:
    """The selector was turned to node-1 alone."""
    partition = fields.pop("partition", None)
    return world(ds("v2", selector={"c": "y"}, partition=partition), nodes=canary("node-1"), **fields)


@pytest.mark.parametrize(
    ("of", "unplanned"),
    [
        (world(ds("v2"), pods=everywhere(5, "v2")), 0),
        (world(ds("v2", partition=2), pods=[*everywhere(2), *served("node-2", "node-3", "node-4", rev="v2")]), 0),
        (world(ds("v2", partition=4), pods=[*everywhere(2), *served("node-2", "node-3", "node-4", rev="v2")]), 2),
        (world(ds("v2", partition=3), pods=everywhere(5, "v2"), revisions=None), 0),
        (world(ds(partition=2), pods=everywhere(5)), 0),
        (
            world(
                ds("v2", partition=4), pods=[pod("node-0"), *served("node-1", "node-2", "node-3", "node-4", rev="v2")]
            ),
            3,
        ),
        (turned(pods=[*served("node-0", "node-1"), *served("node-2", "node-3", "node-4", rev="v2")]), 3),
        (turned(pods=[*served("node-0", "node-3", "node-4"), *served("node-1", "node-2", rev="v2")]), 1),
        (
            turned(partition=3, pods=[*served("node-0", "node-1"), *served("node-2", "node-3", "node-4", rev="v2")]),
            3,
        ),
        (turned(pods=[*everywhere(4, "v2"), pod("node-4", "v2", ready=None)]), 0),
    ],
    ids=[
        "no partition",
        "as allowed",
        "partition raised",
        "first deployment",
        "first deployment of v1",
        "raised high",
        "none of them is selected",
        "one of them is selected",
        "nor does the partition allow all",
        "all have it, so nobody is kept from it",
    ],
)
def test_updated_nodes_beyond_what_the_partition_allows(of: World, unplanned: int) -> None:
    assert summary(of).unplanned == unplanned


def test_limits_are_numbers_of_nodes() -> None:
    budget = summary(world(ds(max_unavailable="30%", partition="50%"), nodes=7, pods=everywhere(7))).budget
    assert (budget.max_unavailable, budget.max_surge, budget.partition) == (3, 0, 3)
    surging = summary(world(ds(max_surge="10%"), nodes=7, pods=everywhere(7))).budget
    assert (surging.max_unavailable, surging.max_surge) == (0, 1)


def test_nothing_is_seen_of_a_spec_without_a_meaning_and_of_one_that_goes() -> None:
    assert plan(world(ds(max_unavailable="many"), pods=everywhere(5))).summary is None
    assert plan(world(ds(dying=True), pods=everywhere(5))).summary is None


def test_how_many_pods_a_hook_holds_and_since_when_too_long() -> None:
    held = {"hook": "yes"}
    pods = [
        prepared(pod("node-0", labels=held), since=ago(3599)),
        prepared(pod("node-1", labels=held), since=ago(3600)),
        replace(prepared(pod("node-2", labels=held)), held_since=None),
        prepared(pod("node-3", labels=held, dying=True), since=ago(9999)),
        prepared(pod("node-4"), since=ago(9999)),
        pod("node-5", labels=held),
    ]
    seen = summary(world(ds("v2", hook=HOOK, max_unavailable=6), nodes=6, pods=pods))
    assert (seen.preparing, seen.overdue) == (3, 1)
    later = seen.at(NOW + 2)
    assert (later.preparing, later.overdue) == (3, 2)
    patient = {"kruise-ds/pre-delete-deadline-seconds": "7200"}
    seen = summary(world(ds("v2", hook=HOOK, max_unavailable=6, annotations=patient), nodes=6, pods=pods))
    assert (seen.overdue, seen.at(NOW + 3602).overdue) == (0, 2)


def test_a_pod_that_a_taint_lets_stay_has_not_to_leave() -> None:
    nodes = [
        node("node-0"),
        node("node-1", taint("dedicated", "NoSchedule")),
        node("node-2", taint("x", "NoExecute")),
    ]
    found = plan(world(nodes=nodes, pods=everywhere(3)))
    assert found.status is not None
    assert found.status.counts is not None
    assert found.summary is not None
    assert (found.status.counts.number_misscheduled, found.summary.leaving) == (2, 1)
    assert summary(world(nodes=nodes[:2], pods=everywhere(2))).leaving == 0
