"""How many nodes of a failure domain, and how many domains, are updated at once: `rollingUpdate.topology`."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSetStatus, Rollout, Topology
from controller.api.formats import IntOrPercent
from controller.planner.blocker_texts import Blocker
from controller.planner.explanation import Explainer
from controller.planner.plan import Plan, plan
from controller.planner.rollout_state import rollout_state
from controller.planner.world import World
from tests.beds.toy_cluster import ToyCluster
from tests.beds.worlds import LONG, ago, check, ds, node, pending, pod, status_in, taint, world

UNREACHABLE = taint("node.kubernetes.io/unreachable", "NoExecute")
ZONES = {"a1": "a", "a2": "a", "a3": "a", "b1": "b", "b2": "b", "c1": None}


def zoned(
    most: IntOrPercent | None = None, domains: int | None = None, *, ill: str = "", new: str = "", **how: Any
) -> World:
    """v2 is to be rolled out, `ill` nodes have a v1 that is not ready, `new` ones a v2 that is not ready yet."""
    lost, since = how.pop("lost", ()), ago(how.pop("ready_for", LONG))
    nodes = [
        node(name, *([UNREACHABLE] if name in lost else []), labels={"zone": zone} if zone else {})
        for name, zone in ZONES.items()
    ]
    there = [
        pending(name, "v2") if name in new.split() else pod(name, ready=None if name in ill.split() else since)
        for name in ZONES
    ]
    limits = {"max_unavailable": "100%", **how}
    topology = Topology(key="zone", max_unavailable=most, max_domains=domains)
    daemonset = ds("v2", rolling={"topology": topology}, **limits)
    record = Rollout(stable_revision="v1", start_time="2026-01-01T00:00:00Z")
    status = DaemonSetStatus(update_revision="v2", rollout=record)
    return world(replace(daemonset, status=status), nodes=nodes, pods=there)


@pytest.mark.parametrize(
    ("how", "taken"),
    [
        ({"most": 1}, "c1 b2 a3"),
        ({"most": "50%"}, "c1 b2 a3 a2"),
        ({"most": 1, "domains": 1}, "c1"),
        ({"domains": 2}, "c1 b2 b1"),
        ({"domains": 2, "max_unavailable": 2}, "c1 b2"),
        ({"domains": 1, "new": "a1"}, "a3 a2"),
        ({"most": 1, "new": "a1"}, "c1 b2"),
        ({"most": 2, "domains": 1, "new": "a1"}, "a3"),
        ({"domains": 1, "lost": ["a1"]}, "c1"),
        ({"most": 1, "lost": ["a1"]}, "c1 b2"),
        ({"most": 1, "min_ready": 60, "ready_for": 5}, "c1 b2 a3"),
    ],
    ids=str,
)
def test_nodes_are_taken_as_far_as_their_domains_allow(how: dict[str, Any], taken: str) -> None:
    check(zoned(**how), *[f"-{name} v1" for name in taken.split()])


def test_an_old_pod_that_is_not_ready_is_replaced_wherever_it_is() -> None:
    """Nothing is lost by that; its domain has no room for another node."""
    check(zoned(1, 1, ill="a1 a2 b1"), "-b1 v1", "-a2 v1", "-a1 v1", "-c1 v1")


def test_a_node_that_was_ill_before_its_update_blocks_no_other_domain() -> None:
    cluster = ToyCluster(zoned(domains=1, ill="b1"))
    cluster.expect("-b1 v1, -c1 v1", "+b1 v2, +c1 v2", "")
    cluster.ready("c1")
    restarted = ToyCluster(replace(cluster.world, predecessors={}))
    restarted.expect("-b2 v1")
    assert restarted.status.rollout.unavailable_before == ("b1",)
    restarted.expect("+b2 v2", "")
    restarted.ready()
    restarted.expect("-a3 v1, -a2 v1, -a1 v1")
    assert restarted.status.rollout.unavailable_before is None


@pytest.mark.parametrize("restarted", [False, True], ids=["one process", "another process"])
def test_a_node_that_joins_blocks_no_other_domain(restarted: bool) -> None:
    start = zoned(domains=1)
    joined = replace(node("b3", labels={"zone": "b"}), created=start.now)
    cluster = ToyCluster(replace(start, nodes=(*start.nodes, joined)))
    cluster.expect("+b3 v2", "-c1 v1")
    if restarted:
        cluster.world = replace(cluster.world, predecessors={})
    cluster.expect("+c1 v2", "")
    cluster.ready("c1")
    cluster.expect("-b2 v1, -b1 v1")


def test_without_a_status_a_node_that_joined_is_recorded_at_once() -> None:
    start = zoned(new="a1")
    joined = replace(node("b3", labels={"zone": "b"}), created=start.now)
    lost = replace(start, nodes=(*start.nodes, joined), daemonset=replace(start.daemonset, status=None))
    assert status_in(plan(lost)).rollout.unavailable_before == ("b3",)


def test_a_node_that_the_update_has_emptied_does_not_count_as_joined() -> None:
    start = zoned(domains=1)
    cluster = ToyCluster(replace(start, pods=start.pods[:-1]))
    cluster.expect("+c1 v2", "")
    cluster.ready()
    cluster.expect("-b2 v1, -b1 v1")


def test_what_was_unavailable_before_is_known_before_the_status_says_it() -> None:
    start = zoned(domains=1, ill="a1")
    cluster = ToyCluster(start)
    cluster.expect("-a1 v1, -c1 v1", "+a1 v2, +c1 v2")
    cluster.ready("c1")
    late = replace(cluster.world, daemonset=start.daemonset)
    check(late, "-a3 v1, -a2 v1")
    check(replace(late, unavailable_before=frozenset({"a1"})), "-b2 v1, -b1 v1")


@pytest.mark.parametrize("lost", [False, True], ids=["with its status", "without its status"])
def test_what_an_earlier_update_broke_is_healed_before_the_next_domain_opens(lost: bool) -> None:
    cluster = ToyCluster(zoned(domains=1, most=2))
    cluster.expect("-c1 v1", "+c1 v2", "")
    if lost:
        cluster.world = replace(cluster.world, daemonset=replace(cluster.world.daemonset, status=None))
    again = ds("v3", max_unavailable="100%", rolling={"topology": Topology(key="zone", max_domains=1)})
    cluster.edit(again)
    cluster.expect("-c1 v2", "+c1 v3", "")
    cluster.ready()
    cluster.expect("-b2 v1, -b1 v1")


def test_while_more_domains_are_open_than_may_be_no_available_pod_is_taken_in_any() -> None:
    """Pods of an earlier update are not ready in two domains, and are replaced at once."""
    cluster = ToyCluster(zoned(1, domains=3))
    cluster.expect("-c1 v1, -b2 v1, -a3 v1", "+a3 v2, +b2 v2, +c1 v2", "")
    cluster.ready("c1")
    cluster.edit(ds("v3", max_unavailable="100%", rolling={"topology": Topology(key="zone", max_domains=1)}))
    cluster.expect("-b2 v2, -a3 v2", "+a3 v3, +b2 v3", "")
    cluster.ready("a3")
    cluster.expect("-b1 v1")


def test_while_surging_the_limits_hold_for_nodes_with_two_pods() -> None:
    cluster = ToyCluster(zoned(2, 1, max_surge="100%"))
    cluster.expect("+c1 v2", "")
    cluster.ready()
    cluster.expect("-c1 v1", "+b2 v2, +b1 v2", "")
    cluster.ready()
    cluster.expect("-b1 v1, -b2 v1", "+a3 v2, +a2 v2")


def test_the_status_says_that_the_limits_are_used_up() -> None:
    start = zoned(1, 1, new="a1")
    explainer = Explainer(rollout_state(start))
    waiting = {one.name for one in explainer.rollout.outdated if explainer.blocker(one) is Blocker.DOMAIN}
    assert waiting == {"c1", "b1", "b2", "a2", "a3"}
    decided = plan(start)
    assert said(decided, "Progressing")[:2] == ("True", "TopologyInUse")
    assert blocked(decided) == {"TopologyInUse"}


def test_a_rollout_that_waits_for_the_unreachable_nodes_of_a_domain_does_not_stall() -> None:
    start = zoned(1, lost=["a1", "a2", "b1", "c1"])
    decided = plan(start)
    assert decided.actions == ()
    assert status_in(decided).rollout.nodes_unreachable_since
    assert said(decided, "Progressing")[1] == "NodesUnreachable"
    also = plan(zoned(1, lost=["b1", "c1"], ill="a1", partition=1))
    assert status_in(also).rollout.nodes_unreachable_since is None, "domain a waits for a1"


def test_a_bad_topology_is_named() -> None:
    problems = world(ds(rolling={"topology": Topology(key="a b", max_unavailable="x")})).rules.problems
    assert [one.partition(":")[0].rpartition("rollingUpdate.")[2] for one in problems] == [
        "topology.key",
        "topology.maxUnavailable",
    ]


def blocked(decided: Plan) -> set[str]:
    """The reasons of the metric `rollout_blocked`."""
    assert decided.summary is not None
    return {str(reason) for reason, holds in decided.summary.blocked.items() if holds}


def said(decided: Plan, kind: str) -> tuple[str, str, str]:
    (found,) = [one for one in status_in(decided).conditions if one.type == kind]
    return found.status, found.reason, found.message
