"""What the status says."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.daemonset import Columns, Counts, LifecycleHook, Rollout
from controller.api.formats import LONGEST_TEXT
from controller.api.names import LIFECYCLE_STATE_LABEL, PREPARING_DELETE
from controller.api.objects import rfc3339
from controller.planner.plan import Plan, plan
from controller.planner.status import Status, columns_of
from controller.planner.world import BackoffKey, World
from tests.beds.worlds import (
    NOW,
    ago,
    at,
    ds,
    failed,
    node,
    pending,
    picture,
    pod,
    prepared,
    refusing,
    revision,
    served,
    taint,
    world,
)

NO_EXECUTE = [*(node(f"node-{number}") for number in range(4)), node("node-4", taint("x", "NoExecute"))]
H6: dict[str, Any] = {"nodes": NO_EXECUTE, "pods": [pod("node-0", "v2", ready=ago(10)), *at("- v1 v2! - v1").pods]}


def status(of: World) -> Status:
    decided = plan(of).status
    assert decided is not None
    return decided


def counts(of: World) -> Counts:
    counted = status(of).counts
    assert counted is not None
    return counted


def condition(of: World, type_: str) -> tuple[str, str, str]:
    [found] = [one for one in status(of).conditions if one.type == type_]
    return found.status, found.reason, found.message


def test_the_table() -> None:
    assert counts(at("", **H6)) == Counts(
        desired_number_scheduled=4,
        current_number_scheduled=3,
        number_misscheduled=1,
        number_ready=2,
        updated_number_scheduled=2,
        number_available=2,
        number_unavailable=2,
    )


def test_with_min_ready_seconds_the_plan_wakes_up_for_availability() -> None:
    slow = at("", min_ready=30, **H6)
    assert (counts(slow).number_available, counts(slow).number_ready) == (1, 2)
    assert plan(slow).wake_at == pytest.approx(NOW + 20.05)


OLDER = [pod("node-0", created=ago(99), ready=None), pod("node-0", "v2", created=ago(9))]
HELD = pod("node-0", labels={LIFECYCLE_STATE_LABEL: PREPARING_DELETE})


@pytest.mark.parametrize(
    ("of", "current", "ready", "available", "updated"),
    [
        pytest.param(at("-", max_surge=1, pods=OLDER), 1, 0, 0, 0, id="surging the older pod stands for the node"),
        pytest.param(at("v1†+v2", max_surge=1), 1, 1, 1, 1, id="until it terminates"),
        pytest.param(at("v1†", "v1"), 1, 1, 0, 1, id="a terminating pod still counts as scheduled"),
        pytest.param(world(nodes=1, pods=[failed("node-0", terminating=True)]), 0, 0, 0, 0, id="not if it ended"),
        pytest.param(world(nodes=1, pods=[pod("node-0", phase="Succeeded")]), 1, 0, 0, 1, id="ended it is not ready"),
        pytest.param(world(nodes=1, pods=[HELD]), 1, 1, 0, 1, id="one that a hook holds is not available"),
        pytest.param(world(nodes=0, pods=[pod("node-9")]), 0, 0, 0, 0, id="of vanished nodes none count"),
    ],
)
def test_what_counts(of: World, current: int, ready: int, available: int, updated: int) -> None:
    found = counts(of)
    assert (found.current_number_scheduled, found.number_ready, found.number_available) == (current, ready, available)
    assert found.updated_number_scheduled == updated


def test_a_pod_that_may_stay_but_should_not_run_is_misscheduled() -> None:
    staying = counts(at("v1", "v1", nodes=[node("node-0", taint("x"))]))
    assert (staying.desired_number_scheduled, staying.number_misscheduled) == (0, 1)


@pytest.mark.parametrize(
    ("of", "observed"),
    [
        (at("- -", "v1", generation=7), None),
        (at("v1 v1", "v1", generation=7), 7),
        (at("v1 v1", generation=7), 7),
        (at("v1 v1", "v1", generation=7, fresh=False), None),
        (at("-", "v1", generation=7, revisions=[]), None),
        (at("-", "v1", generation=7, write_failure="quota exceeded"), 7),
    ],
    ids=["pods are missing", "done", "the update may go on", "stale", "nothing is stored", "writes fail"],
)
def test_observed_generation_moves_only_when_nothing_is_left_to_do(of: World, observed: int | None) -> None:
    assert status(of).observed_generation == observed


def waiting(*numbers: int, pods: str = "v1 v1 - - -") -> World:
    """Writes at these nodes have failed."""
    places = {BackoffKey("node", f"node-{number}"): NOW + 60 for number in numbers}
    return at(pods, "v1", in_backoff=places, write_failure="no")


def test_what_is_done_all_the_same_is_not_withheld() -> None:
    decided = plan(waiting(2, 3, 4))
    assert (decided.actions, decided.withheld, decided.all_written) == ((), True, False)
    decided = plan(waiting(9))
    assert (len(decided.actions), decided.withheld) == (3, False), "nothing is left to be done at node-9"
    assert plan(waiting(9, pods="v1 v1")).all_written
    assert not plan(at("v1 v1", "v1", fresh=False, write_failure="no")).all_written


def test_the_first_place_whose_back_off_ends_does_not_wait_for_the_last() -> None:
    in_backoff = {BackoffKey("node", "node-3"): ago(-8), BackoffKey("node", "node-4"): ago(-300)}
    assert plan(at("v1 v1 v1 - -", "v1", in_backoff=in_backoff)).wake_at == ago(-8)


def test_nothing_is_done_or_said_for_a_daemonset_on_its_way_out() -> None:
    assert plan(world(ds(terminating=True))) == Plan()


FAIL = ("True", "WritesFail")
HOOK = LifecycleHook(labels_handler={"hold": "yes"})
SINCE = f" by label hold=yes since {rfc3339(ago(60))}"


def holding(count: int) -> World:
    held = [prepared(pod(f"node-{number}", labels={"hold": "yes"})) for number in range(count)]
    return world(ds("v2", hook=HOOK), nodes=count, pods=held)


DEGRADED: dict[str, tuple[World, tuple[str, str, str]]] = {
    "while writes fail": (at("-", "v1", write_failure="quota exceeded"), (*FAIL, "quota exceeded")),
    "during the back-off of what failed": (waiting(2, 3, 4), (*FAIL, "no")),
    "not where nothing is left to be written": (waiting(9, pods="v1 v1"), ("False", "AsExpected", "")),
    "in a stale view": (at("v1 v1", "v1", fresh=False, write_failure="no"), (*FAIL, "no")),
    "for an unreadable pod": (at("v1 v1", "v1", unreadable="what?"), (*FAIL, "what?")),
    "for a refused template": (
        at("v1 v1", verdicts=refusing("v2", "no such field")),
        ("True", "TemplateRefused", "no such field"),
    ),
}


@pytest.mark.parametrize(("of", "expected"), DEGRADED.values(), ids=DEGRADED)
def test_trouble_is_reported(of: World, expected: tuple[str, str, str]) -> None:
    assert condition(of, "Degraded") == expected


PROGRESSING: dict[str, tuple[World, str, str]] = {
    "goes on": (at("v1 v1"), "True Updating", ""),
    "OnDelete": (at("v1 v1", on_delete=True), "True OnDelete", ""),
    "paused": (at("v1 v1", paused=True), "Unknown Paused", ""),
    "at the partition": (at("v1 v1", partition=2), "True PartitionReached", ""),
    "towards it": (at("v1 v1", partition=1), "True Updating", ""),
    "the selector leaves nodes out": (
        at("v1 v1 v1", selector={"canary": "yes"}),
        "True SelectorReached",
        "leaves out 3 old ones",
    ),
    "a hook holds pods": (
        holding(3),
        "True HeldByLifecycleHook",
        "the preDelete hook holds node-2-v1, node-1-v1, node-0-v1" + SINCE,
    ),
    "many pods": (
        holding(4),
        "True HeldByLifecycleHook",
        "the preDelete hook holds node-3-v1, node-2-v1, node-1-v1 and 1 more" + SINCE,
    ),
    "the budget is used up": (
        at("v1 v1 v2!"),
        "True MaxUnavailableInUse",
        "1 node counts as unavailable, maxUnavailable is 1",
    ),
    "the surge is used up": (
        at("v1 v1 v1+v2!", max_surge=1),
        "True MaxSurgeInUse",
        "; 1 node is in the middle of a surge, maxSurge is 1",
    ),
    "it is not": (at("v1 v1 v1+v2!", max_surge=2), "True Updating", "nodes have a pod of revision v2"),
}


@pytest.mark.parametrize(("of", "expected", "words"), PROGRESSING.values(), ids=PROGRESSING)
def test_a_rollout_says_what_it_waits_for(of: World, expected: str, words: str) -> None:
    state, reason, message = condition(of, "Progressing")
    assert f"{state} {reason}" == expected
    assert message.endswith(words)
    assert not status(of).settled


def test_all_well() -> None:
    well = at("v1 v1 v1 v1 v1", "v1")
    assert condition(well, "Progressing") == ("True", "RolloutComplete", "5 of 5 nodes have a pod of revision v1")
    assert condition(well, "Available") == ("True", "AllAvailable", "5 of 5 nodes are served")
    assert condition(well, "Degraded") == ("False", "AsExpected", "")
    assert status(well).settled
    none = ("False", "PodsUnavailable", "2 of 2 nodes have no available pod")
    assert condition(at("v1! v1!", "v1"), "Available") == none


def test_columns() -> None:
    containers = [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:2"}, "nonsense"]
    full = world(ds(nodeSelector={"os": "linux", "arch": "arm64"}, containers=containers), nodes=0, revisions=[])
    assert status(full).columns == Columns(
        node_selector="arch=arm64,os=linux", containers="a,b,", images="a:1,b:2,", selector="app=demo"
    )
    plain = ds()
    none = Columns(node_selector="<none>", containers="<none>", images="<none>", selector="app=demo")
    assert columns_of(replace(plain, spec=replace(plain.spec, template={"spec": []})), Rollout()) == none


def test_a_failed_pass_prints_world_and_plan_readably() -> None:
    pods = [*served("node-0"), pending("node-1", "v2", terminating=True), failed("node-7", "")]
    shown = world(ds("v2", on_delete=True), nodes=["node-0", node("node-1", taint("x"))], pods=pods)
    drawn = picture(shown, plan(shown))
    assert "node-1     STAY   True      (node-1-v2 v2 Pending terminating unbound) [x:NoSchedule]" in drawn
    assert "node-7     gone             (node-7- no hash Failed)" in drawn
    assert "revisions 1: demo-v1, 2: demo-v2" in drawn


BLUE: dict[str, Any] = {"burst": 2, "nodeSelector": {"color": "blue"}}
MORE: dict[str, tuple[World, bool]] = {
    "all is well": (at("v1 v1", "v1"), False),
    "nothing is known": (world(fresh=False, revisions=[]), False),
    "claims are followed by the pods": (world(nodes=1, orphans=(pod("node-0", owner=""),)), True),
    "so is the first revision": (world(revisions=[]), True),
    "and another number": (world(revisions=[revision("v1", 1), revision("v2", 2)]), True),
    "what the burst left over is to come": (at("- - -", "v1", burst=2), True),
    "created pods announce themselves": (at("- -", "v1", burst=2), False),
    "more deletes than the burst": (at("v1 v1 v1", "v1", **BLUE), True),
    "as many": (at("v1 v1", "v1", **BLUE), False),
    "old pods wait for their turn": (at("v1 v1"), True),
    "while a new one starts": (at("v1 v1 v2!"), True),
    "a pod is made first, then the next old one goes": (at("v1 v1 -"), True),
    "the last one goes now": (at("v1 v2 v2"), False),
    **{
        f"it stands still on purpose, {state} {still}": (at(state, **still), False)
        for still in ({"paused": True}, {"on_delete": True}, {"partition": 3})
        for state in ("v1 v1 v1", "v1 v1 -")
    },
}


@pytest.mark.parametrize(("of", "more"), MORE.values(), ids=MORE)
def test_whether_more_is_to_come(of: World, more: bool) -> None:
    assert plan(of).more is more


def test_pods_that_do_not_last_are_told_with_their_nodes() -> None:
    found = status(replace(at("v1 v1", "v1"), short_lived={"node-1": NOW + 9}))
    (degraded,) = [one for one in found.conditions if one.type == "Degraded"]
    assert (degraded.status, degraded.reason) == ("True", "PodsDoNotLast")
    assert degraded.message.startswith("pods do not last on node-1: ")


def test_what_the_server_says_is_cut_off() -> None:
    found = status(replace(at("v1 -", "v1"), write_failure="x" * 5000))
    assert max(len(one.message) for one in found.conditions) == LONGEST_TEXT
