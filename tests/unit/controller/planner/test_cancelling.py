"""What was prepared for its deletion stays after all once nothing wants it deleted any more."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSet, LifecycleHook
from controller.api.names import KRUISE_POD_READY
from controller.api.pod import Pod
from controller.api.readiness_gates import ReadinessGate
from controller.inplace.change import InPlaceChange
from controller.planner.actions import OpenGates, PrepareDelete
from controller.planner.world import BackoffKey
from tests.beds.worlds import (
    NOW,
    check,
    ds,
    everywhere,
    failed,
    node,
    pod,
    prepared,
    refusing,
    revision,
    taint,
    world,
)

HELD = {"drain": "wait"}
HOOK = LifecycleHook(labels_handler=HELD)
WAITING = prepared(pod("node-1", labels=HELD))
PODS = (pod("node-0", labels=HELD), WAITING)
MARKED = ReadinessGate(type=KRUISE_POD_READY, open=False, present=True, index=0, marked_not_ready=True)
HALF = replace(pod("node-1", labels=HELD, ready=None), gates=(MARKED,))


def hooked(rev: str = "v2", **fields: Any) -> DaemonSet:
    return ds(rev, hook=HOOK, **fields)


@pytest.mark.parametrize("marked", [False, True])
def test_a_node_that_is_eligible_again_keeps_its_pod(marked: bool) -> None:
    waiting = prepared(pod("node-1", labels=HELD), marked_not_ready=marked)
    excluded = [node("node-0"), node("node-1", taint("x", "NoExecute"))]
    asked = ds(hook=replace(HOOK, mark_pod_not_ready=marked))
    check(world(asked, nodes=excluded, pods=[PODS[0], waiting]))
    check(world(asked, nodes=2, pods=[PODS[0], waiting]), "keep node-1-v1")


def test_an_update_that_was_rolled_back_keeps_the_pod_in_the_same_pass() -> None:
    stored = [revision("v1"), revision("v2")]
    check(world(hooked("v1"), nodes=2, pods=PODS, revisions=stored), "renumber demo-v1 3", "keep node-1-v1")


@pytest.mark.parametrize(
    "changed",
    [
        hooked(paused=True),
        hooked(on_delete=True),
        hooked(partition=2),
        hooked(selector={"track": "canary"}),
    ],
    ids=["paused", "OnDelete", "partition", "selector"],
)
def test_what_keeps_the_old_pods_takes_back_what_has_begun(changed: DaemonSet) -> None:
    check(world(hooked(), nodes=2, pods=PODS))
    check(world(changed, nodes=2, pods=PODS), "keep node-1-v1")


def test_two_edits_in_a_row_leave_no_pod_stuck() -> None:
    """To a third revision it is still outdated; for one that the server refuses it is not replaced."""
    check(world(hooked("v3"), nodes=2, pods=PODS))
    check(
        world(hooked("v3"), nodes=2, pods=PODS, verdicts=refusing("v3"), ask_at=NOW + 60),
        "keep node-1-v1",
    )


def test_while_surging_an_old_pod_serves_again_when_its_successor_does_not() -> None:
    for marked in (False, True):
        surging = ds("v2", max_surge=1, hook=replace(HOOK, mark_pod_not_ready=marked))
        waiting = prepared(pod("node-1", labels=HELD), marked_not_ready=marked)
        pair = [waiting, pod("node-1", "v2", ready=None, labels=HELD)]
        check(world(surging, nodes=2, pods=[PODS[0], *pair]), "keep node-1-v1")
        sick = replace(waiting, ready=False, ready_since=None, drained=False)
        check(world(surging, nodes=2, pods=[PODS[0], sick, pair[1]]))


def test_an_update_that_surges_from_now_on_keeps_the_only_pod_of_a_node() -> None:
    check(world(hooked(max_surge=1), nodes=2, pods=PODS), "+node-1 v2", "keep node-1-v1")


def test_while_surging_what_may_only_stay_stays_when_needed() -> None:
    nodes = [node("node-0"), node("node-1"), node("node-2", taint("x"))]
    surging = hooked(max_surge=1)
    staying = prepared(pod("node-2", labels=HELD))
    served = [pod(f"node-{number}", "v2", labels=HELD) for number in range(2)]
    check(world(surging, nodes=nodes, pods=[*served, staying]))
    lost = [served[0], replace(served[1], ready=False, ready_since=None)]
    check(world(surging, nodes=nodes, pods=[*lost, staying]), "keep node-2-v1")


def test_of_two_pods_of_one_node_the_one_that_serves_stays() -> None:
    old, new = prepared(pod("node-0", labels=HELD)), pod("node-0", "v2", labels=HELD)
    check(world(hooked(), nodes=1, pods=[old, new]))
    worse = replace(new, ready=False, ready_since=None)
    check(world(hooked(), nodes=1, pods=[old, worse]), "~node-0 v2", "keep node-0-v1")


@pytest.mark.parametrize(
    "one",
    [
        failed("node-1", labels=HELD),
        pod("node-1", labels=HELD, terminating=True),
        pod("node-9", labels=HELD),
        pod("", labels=HELD),
    ],
    ids=["failed", "terminating", "of a node that is gone", "aimed at no node"],
)
def test_nobody_takes_back_what_goes_anyway_or_nobody_knows_of(one: Pod) -> None:
    nodes = ["node-0", "node-1"] if one.node == "node-1" else ["node-0"]
    check(world(hooked("v1"), nodes=nodes, pods=[PODS[0], prepared(one)]))


def test_a_silent_node_changes_neither_the_reason_nor_its_absence() -> None:
    silent = node("node-1", taint("node.kubernetes.io/unreachable", "NoExecute"))
    check(world(hooked(), nodes=[node("node-0"), silent], pods=PODS))
    check(world(hooked("v1"), nodes=[node("node-0"), silent], pods=PODS), "keep node-1-v1")
    pair = [*PODS, pod("node-1", "v2", labels=HELD)]
    check(world(hooked(), nodes=[node("node-0"), silent], pods=pair))


def test_a_mark_without_the_state_is_taken_back_too() -> None:
    """The controller may end between the two writes."""
    check(world(hooked("v1"), nodes=2, pods=[PODS[0], HALF]), "keep node-1-v1")
    check(world(hooked(), nodes=2, pods=[PODS[0], HALF]), "~node-1 v1")


def test_an_update_in_place_is_no_deletion() -> None:
    """The hook does not hold it, and what was prepared for a deletion stays."""
    in_place = hooked(rolling_update_type="InPlaceIfPossible")
    changes = {"v1": InPlaceChange(labels={"a": "b"})}
    check(world(in_place, nodes=2, pods=[PODS[0], pod("node-1", labels=HELD)], changes=changes), "*node-1 v2")
    check(world(in_place, nodes=2, pods=PODS, changes=changes), "*node-1 v2")
    after = prepared(pod("node-1", "v2", labels=HELD))
    check(world(in_place, nodes=2, pods=[PODS[0], after], changes=changes), "keep node-1-v2")


def test_a_gate_is_opened_only_where_nobody_wants_it_closed() -> None:
    gate = ReadinessGate(type=KRUISE_POD_READY, open=False, present=False, index=0)
    new = replace(pod("node-0", "v2", ready=None), gates=(gate,))
    decided = check(world(hooked(), nodes=1, pods=[new]), "open node-0-v2")
    assert [one.gates for one in decided.actions if isinstance(one, OpenGates)] == [(gate,)]
    for closed in (replace(gate, held_by_others=True), replace(gate, open=True)):
        check(world(hooked(), nodes=1, pods=[replace(new, gates=(closed,))]))
    waiting = prepared(pod("node-0", "v2", labels=HELD), marked_not_ready=True)
    check(world(ds("v3", hook=replace(HOOK, mark_pod_not_ready=True)), nodes=1, pods=[waiting]))


def test_what_cannot_be_taken_back_is_left_alone_for_a_while() -> None:
    case = world(hooked("v1"), nodes=2, pods=PODS)
    check(case, "keep node-1-v1")
    check(replace(case, in_backoff={BackoffKey("kept", WAITING.uid): NOW + 60}))
    check(replace(case, fresh=False))
    many = [prepared(one) for one in everywhere(4)]
    check(world(hooked("v1", burst=2), nodes=4, pods=many), "keep node-0-v1", "keep node-1-v1")


@pytest.mark.parametrize("one", [prepared(pod("node-1")), HALF], ids=["let go", "not told to anybody"])
def test_where_the_next_write_fails_the_pod_serves_on_until_it_goes_well(one: Pod) -> None:
    case = world(hooked(), nodes=2, pods=[PODS[0], one])
    check(replace(case, in_backoff={BackoffKey("object", one.uid): NOW + 60}), "keep node-1-v1")
    word = "~node-1 v1" if one is HALF else "-node-1 v1"
    decided = check(replace(case, due_again={BackoffKey("object", one.uid): NOW - 1}), word)
    assert [one.tried for one in decided.actions if isinstance(one, PrepareDelete)] == [True] * (one is HALF)
    serving = replace(one, labels=PODS[0].labels, gates=(), ready=True)
    check(
        world(hooked(), nodes=2, pods=[PODS[0], serving], in_backoff={BackoffKey("object", one.uid): NOW + 60}),
        "~node-0 v1",
    )


def test_a_pod_that_waits_for_its_hook_survives_a_failed_write() -> None:
    case = world(hooked(), nodes=2, pods=PODS)
    check(replace(case, in_backoff={BackoffKey("object", WAITING.uid): NOW + 60}))
    check(replace(case, due_again={BackoffKey("object", WAITING.uid): NOW - 1}))
