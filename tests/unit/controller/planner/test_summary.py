"""What one pass saw, as numbers: the source of the metrics that only a pass knows."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.containers import PodProblem
from controller.api.daemonset import LifecycleHook
from controller.api.node import Node
from controller.api.pod import Pod
from controller.planner.plan import plan
from controller.planner.summary import Summary
from controller.planner.world import BackoffKey, World
from tests.beds.worlds import (
    NOW,
    ago,
    at,
    before,
    ds,
    everywhere,
    failed,
    node,
    pending,
    pod,
    prepared,
    refusing,
    revision,
    taint,
    world,
)

HOOK = LifecycleHook(labels_handler={"hook": "yes"})


def summary(of: World) -> Summary:
    seen = plan(of).summary
    assert seen is not None
    return seen


def states(seen: Summary) -> str:
    """`a: 2 updated, 1 old; b: 1 failed`, without the zeros."""
    return "; ".join(
        f"{zone}: " + ", ".join(f"{number} {state}" for state, number in numbers.items() if number)
        for zone, numbers in sorted(seen.zones.items())
    )


def ailing(on: str, problem: PodProblem, rev: str = "v2") -> Pod:
    return replace(pod(on, rev, ready=None), problem=problem)


def canary(*names: str) -> list[Node]:
    return [node(f"node-{number}", labels={"c": "y"} if f"node-{number}" in names else {}) for number in range(5)]


DEADLINE = {"kruise-ds/progress-deadline-seconds": "60"}


def told(seen: Summary) -> str:
    """The states, the failures and the blocks of a fleet without zones, in one line."""
    failures = ", ".join(f"{number} {problem}" for problem, number in seen.failed.items() if number)
    blocks = ", ".join(sorted(reason for reason, holds in seen.blocked.items() if holds))
    return " | ".join((states(seen).removeprefix(": "), failures, blocks))


PLACES = (BackoffKey("node", "node-2"), BackoffKey("object", everywhere(2)[1].uid))
"""A node without a pod, and the pod of another."""


def unstored() -> World:
    """An old pod, and a node without one, while the current revision cannot be stored."""
    found = world(ds("v2"), nodes=2, pods=everywhere(1), revisions=[revision("v1")])
    return replace(found, in_backoff=dict.fromkeys((one.backoff_key for one in plan(found).actions), NOW + 9))


STARTING = pod("node-4", "v2", ready=None, created=ago(9))
TURNED: dict[str, Any] = {"selector": {"c": "y"}, "nodes": canary("node-1")}
"""The selector was turned to node-1 alone."""
HELD_BY_HOOK = [prepared(pod("node-0", labels={"hook": "yes"}))]
CRASHING = PodProblem.CRASH_LOOP
AILING = (CRASHING, PodProblem.IMAGE_PULL, PodProblem.CONFIG, PodProblem.UNSCHEDULABLE, CRASHING)
ENDED = [failed("node-0"), replace(failed("node-1"), problem=PodProblem.EVICTED), pod("node-2", phase="Succeeded")]
TABLE: dict[str, tuple[World, str]] = {
    "nothing is there": (world(nodes=0), " |  | "),
    "first pods come": (world(), "5 updating |  | "),
    "all is well": (at("v1 v1 v1", "v1"), "3 updated |  | "),
    "a node where it must not run does not count": (
        at("v1 v1", "v1", nodes=["node-0", node("node-1", taint("x", "NoExecute"))]),
        "1 updated |  | ",
    ),
    "a node where it may only stay does not count either": (
        at("v1 v1", "v1", nodes=["node-0", node("node-1", taint("x"))]),
        "1 updated |  | ",
    ),
    "a vanished node does not count": (at("v1 v1", "v1", nodes=1), "1 updated |  | "),
    "a wave has begun": (
        at("v1 v1 v1 v1 -", pods=[*everywhere(4), STARTING]),
        "1 updating, 4 old |  | MaxUnavailableInUse",
    ),
    "there is room in the budget, so nothing is in the way": (
        at("v1 v1 v1 v1 -", pods=[*everywhere(4), STARTING], max_unavailable=2),
        "1 updating, 4 old |  | ",
    ),
    "old pods that serve nobody wait for no budget": (at("v1! v1!"), "2 old |  | "),
    "the old pod goes, and its node may get the new one": (
        at("v1 v1†"),
        "1 updating, 1 old |  | MaxUnavailableInUse",
    ),
    "of minReadySeconds, while it is ready: no reason for worry however long": (
        at("v2", min_ready=3600, pods=[pod("node-0", "v2", ready=ago(10))]),
        "1 updating |  | ",
    ),
    "surging: a new pod beside the old one, and no room for more": (
        at("v1 v1 v1 v1 v1", max_surge=1, pods=[*everywhere(5), STARTING]),
        "1 updating, 4 old |  | MaxSurgeInUse",
    ),
    "surging: the new pod is available, the old one goes now": (
        at("v1 v1+v2", max_surge=2),
        "1 updating, 1 old |  | ",
    ),
    "paused": (at("v1 v1", paused=True), "2 old |  | Paused"),
    "paused with nothing to do": (at("v1 v1", "v1", paused=True), "2 updated |  | "),
    "paused: what went comes back as it was": (
        at("v1 -", paused=True, predecessors=before("node-1")),
        "1 updating, 1 old |  | Paused",
    ),
    "OnDelete, which another metric says": (at("v1 v1", on_delete=True), "2 old |  | "),
    "the partition holds what is left": (at("v1 v1 v1 v2 v2", partition=3), "2 updated, 3 old |  | PartitionReached"),
    "the partition will hold some while others are updated": (
        at("v1 v1 v1", partition=2),
        "3 old |  | PartitionReached",
    ),
    "a node that the partition keeps gets its old pod back": (
        at("v1 v1 v1 - v2", partition=4, predecessors=before("node-3")),
        "1 updated, 4 old |  | PartitionReached",
    ),
    "the selector holds": (at("v1 v2 v1 v1 v1", **TURNED), "1 updated, 4 old |  | SelectorReached"),
    "the selector has turned to others while old pods are left": (
        at("v1 v1 v2 v2 v2", **TURNED),
        "3 updated, 2 old |  | SelectorReached",
    ),
    "selector and partition": (
        at("v1 v1 v1 v1 v1", partition=4, **TURNED),
        "5 old |  | PartitionReached, SelectorReached",
    ),
    "a first deployment is kept from nobody": (
        at("v1 v1 v1 v1 -", "v1", partition=2, **TURNED),
        "4 updated, 1 updating |  | ",
    ),
    "partitionedScaling keeps new nodes waiting": (
        at("v1 v1 - - -", "v1", partition=3, partitioned_scaling=True),
        "2 updated, 3 old |  | PartitionReached",
    ),
    "the server refuses the template": (
        at("v1 v1", verdicts=refusing("v2"), retry_dry_run_at=NOW + 9),
        "2 old |  | TemplateRefused",
    ),
    "a hook holds the pod whose turn it is": (
        at("v1", hook=HOOK, pods=HELD_BY_HOOK),
        "1 old |  | HeldByLifecycleHook",
    ),
    "own writes are not seen yet": (at("v1 v1", "v1", fresh=False), "2 updated |  | ServerSilent"),
    "each new pod that ails by its reason": (
        at("- - - - -", max_unavailable=5, pods=[ailing(f"node-{n}", why) for n, why in enumerate(AILING)]),
        "5 failed | 2 CrashLoopBackOff, 1 ImagePull, 1 Config, 1 Unschedulable | ",
    ),
    "an old pod that ails is old: it is replaced anyway": (
        at("-", pods=[ailing("node-0", CRASHING, rev="v1")]),
        "1 old |  | ",
    ),
    "pods that have ended": (
        at("- - -", "v1", pods=ENDED, not_before={"node-0": NOW + 9}),
        "3 failed | 1 Evicted, 2 Other | ",
    ),
    "one that has ended and goes makes place for the next": (
        at("-", "v1", pods=[failed("node-0", terminating=True)]),
        "1 updating |  | ",
    ),
    "a pod that the scheduler has not placed": (
        at("-", "v1", pods=[pending("node-0", created=ago(9))]),
        "1 updating |  | ",
    ),
    "a deletion and a creation that the server has not answered": (
        at("v1 v1 -", in_backoff=dict.fromkeys(PLACES, inf), in_flight=frozenset(PLACES)),
        "1 updating, 2 old |  | MaxUnavailableInUse, ServerSilent",
    ),
    "an empty node gets an older pod while the current revision cannot be stored": (
        unstored(),
        "2 old |  | MaxUnavailableInUse",
    ),
    "writes that failed are the server's answer": (
        at("v1 v1 -", in_backoff=dict.fromkeys(PLACES, NOW + 9)),
        "1 updating, 2 old |  | MaxUnavailableInUse",
    ),
}


@pytest.mark.parametrize(("of", "expected"), TABLE.values(), ids=TABLE)
def test_where_the_nodes_stand_why_they_fail_and_what_is_in_the_way(of: World, expected: str) -> None:
    seen = summary(of)
    assert told(seen.at(NOW)) == expected
    assert sum(sum(zone.values()) for zone in seen.zones.values()) == seen.budget.desired, "each node once"
    assert set(seen.failed) == {problem.value for problem in PodProblem}, "also those of which there are none"


def test_a_pod_that_does_not_get_ready_fails_when_patience_ends() -> None:
    slow = pod("node-0", "v1", ready=None, created=ago(50))
    seen = summary(world(ds(annotations=DEADLINE), nodes=2, pods=[slow, pod("node-1")]))
    assert told(seen.at(NOW + 9.9)) == "1 updated, 1 updating |  | "
    late = seen.at(NOW + 10)
    assert told(late) == "1 updated, 1 failed | 1 NotReady | "
    assert (seen.updating, late.updating) == (1, 0)
    assert late.at(NOW + 99) == late


def test_a_pod_that_was_ready_for_long_and_is_not_has_failed_at_once() -> None:
    seen = summary(world(nodes=1, pods=[pod("node-0", ready=None, created=ago(3600))]))
    assert told(seen.at(NOW)) == "1 failed | 1 NotReady | "


def test_patience_includes_min_ready_seconds_like_the_deadline() -> None:
    starting = pod("node-0", ready=None, created=ago(70))
    seen = summary(world(ds(annotations=DEADLINE, min_ready=30), nodes=1, pods=[starting]))
    assert (seen.at(NOW + 19).updating, seen.at(NOW + 20).updating) == (1, 0)


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


UNPLANNED: dict[str, tuple[World, int]] = {
    "no partition": (at("v2 v2 v2 v2 v2"), 0),
    "as allowed": (at("v1 v1 v2 v2 v2", partition=2), 0),
    "partition raised": (at("v1 v1 v2 v2 v2", partition=4), 2),
    "raised high": (at("v1 v2 v2 v2 v2", partition=4), 3),
    "first deployment": (at("v2 v2 v2", partition=3), 0),
    "none of them is selected": (at("v1 v1 v2 v2 v2", **TURNED), 3),
    "one of them is selected": (at("v1 v2 v2 v1 v1", **TURNED), 1),
    "nor does the partition allow all": (at("v1 v1 v2 v2 v2", partition=3, **TURNED), 3),
    "all have it, so nobody is kept from it": (at("v2 v2 v2 v2 v2!", **TURNED), 0),
}


@pytest.mark.parametrize(("of", "unplanned"), UNPLANNED.values(), ids=UNPLANNED)
def test_updated_nodes_beyond_what_the_partition_allows(of: World, unplanned: int) -> None:
    assert summary(of).unplanned == unplanned


def test_limits_are_numbers_of_nodes() -> None:
    budget = summary(world(ds(max_unavailable="30%", partition="50%"), nodes=7, pods=everywhere(7))).budget
    assert (budget.max_unavailable, budget.max_surge, budget.partition) == (3, 0, 3)
    surging = summary(world(ds(max_surge="10%"), nodes=7, pods=everywhere(7))).budget
    assert (surging.max_unavailable, surging.max_surge) == (0, 1)


def test_nothing_is_seen_of_a_spec_without_a_meaning_and_of_one_that_goes() -> None:
    assert plan(world(ds(max_unavailable="many"), pods=everywhere(5))).summary is None
    assert plan(world(ds(terminating=True), pods=everywhere(5))).summary is None


def test_how_many_pods_a_hook_holds_and_since_when_too_long() -> None:
    held = {"hook": "yes"}
    pods = [
        prepared(pod("node-0", labels=held), since=ago(3599)),
        prepared(pod("node-1", labels=held), since=ago(3600)),
        replace(prepared(pod("node-2", labels=held)), held_since=None),
        prepared(pod("node-3", labels=held, terminating=True), since=ago(9999)),
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
    assert (found.status.counts.number_misscheduled, found.summary.misscheduled_to_delete) == (2, 1)
    assert summary(world(nodes=nodes[:2], pods=everywhere(2))).misscheduled_to_delete == 0
