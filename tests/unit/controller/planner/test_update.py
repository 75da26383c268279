"""How the old pods whose turn it is get the current revision: in place, drained first, or by a new pod."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.daemonset import LifecycleHook
from controller.inplace.change import InPlaceChange, NotPossible
from controller.planner.actions import UpdateInPlace
from controller.planner.plan import plan
from controller.planner.world import BackoffKey
from tests.beds.worlds import (
    BY_IMAGE,
    BY_LABEL,
    BY_RESIZE,
    LABELS,
    NOW,
    RESTARTING,
    ago,
    changing,
    check,
    ds,
    everywhere,
    gate,
    gated,
    in_place,
    node,
    pending,
    pod,
    taint,
    world,
)

UNREACHABLE = taint("node.kubernetes.io/unreachable", "NoExecute")
REREADS = InPlaceChange(labels={"a": "b"}, rereads=("main",))


def old(number: int = 0, **how: Any) -> Any:
    return gated(pod(f"node-{number}", "v1"), **how)


def test_within_max_unavailable_by_name_descending() -> None:
    check(changing(in_place(max_unavailable=2), pods=[old(n) for n in range(5)]), "*node-4 v2", "*node-3 v2")


def test_a_pod_that_is_being_updated_uses_the_budget() -> None:
    busy = gated(pod("node-4", "v2"), in_progress=RESTARTING)
    check(changing(in_place(max_unavailable=2), pods=[*(old(n) for n in range(4)), busy]), "*node-3 v2")


def test_it_does_so_also_while_it_is_ready_all_the_time() -> None:
    """A resize disturbs nobody, and is paced all the same."""
    busy = replace(gated(pod("node-4", "v2")), in_progress=replace(RESTARTING, not_started=False))
    check(changing(pods=[*(old(n) for n in range(4)), busy]))


def test_one_that_is_not_available_is_updated_at_once() -> None:
    """By the next edit or a rollback, outside the budget: that heals it."""
    busy = [gated(pod(f"node-{n}", "v1", ready=None), in_progress=RESTARTING) for n in (1, 3)]
    check(changing(pods=[old(0), busy[0], old(2), busy[1], old(4)]), "*node-3 v2", "*node-1 v2")


@pytest.mark.parametrize(
    ("change", "pods", "why"),
    [
        (NotPossible(why="spec.containers[main].env added"), [old()], "spec.containers[main].env added"),
        (BY_IMAGE, [pod("node-0", "v1")], "they were made without the readiness gate InPlaceUpdateReady"),
        (None, [old()], "their revision is not stored any more"),
        (REREADS, [old()], "reads a changed label or annotation from its environment"),
    ],
)
def test_recreated_it_says_why(change: Any, pods: Any, why: str) -> None:
    start = changing(pods=pods, nodes=1, change=change)
    found = check(start if change else replace(start, changes={}), "-node-0 v1")
    (note,) = [one for one in found.notes if one.reason == "InPlaceUpdateNotPossible"]
    assert why in note.message
    assert note.once


@pytest.mark.parametrize("change", [BY_LABEL, BY_RESIZE], ids=["labels", "resources"])
def test_without_a_restart_no_gate_is_needed(change: InPlaceChange) -> None:
    check(changing(pods=[pod("node-0", "v1")], nodes=1, change=change), "*node-0 v2")


@pytest.mark.parametrize(
    ("gate_on", "agent", "lacking"),
    [
        (True, True, ""),
        (True, False, "no node agent restarts it"),
        (False, True, "the feature gate InPlaceUpdateEnvFromMetadata is off"),
        (False, False, "no node agent restarts it"),
    ],
)
def test_what_is_read_from_the_environment_takes_the_gate_and_a_node_agent(
    gate_on: bool, agent: bool, lacking: str
) -> None:
    start = changing(pods=[replace(old(), has_node_agent=agent)], nodes=1, change=REREADS, reads_env=gate_on)
    found = check(start, "-node-0 v1" if lacking else "*node-0 v2")
    assert [one.message.rpartition(", and ")[2] for one in found.notes] == ([lacking] if lacking else [])


def test_a_pod_that_no_node_has_yet_is_recreated() -> None:
    check(changing(pods=[gated(pending("node-0", "v1"))], nodes=1), "-node-0 v1")


@pytest.mark.parametrize(
    "how",
    [{"paused": True}, {"on_delete": True}, {"partition": 1}, {"selector": {"track": "canary"}}],
    ids=lambda how: next(iter(how)),
)
def test_what_keeps_every_update_keeps_this_one(how: dict[str, Any]) -> None:
    daemonset = ds("v2", on_delete=True) if "on_delete" in how else in_place(**how)
    check(changing(daemonset, pods=[old()], nodes=1))


def test_an_unreachable_node_is_left_alone() -> None:
    check(changing(pods=[old()], nodes=[node("node-0", UNREACHABLE)]))


def test_the_pre_delete_hook_holds_no_update_in_place() -> None:
    hook = LifecycleHook(labels_handler=LABELS)
    check(changing(in_place(hook=hook), pods=[old()], nodes=1), "*node-0 v2")
    check(changing(in_place(hook=hook), pods=[old()], nodes=1, change=NotPossible(why="x")), "~node-0 v1")


def test_of_another_type_pods_are_recreated() -> None:
    check(world(ds("v2"), pods=[old()], nodes=1), "-node-0 v1")


# the grace period


def graced(*pods: Any, change: Any = BY_IMAGE, **fields: Any) -> Any:
    return changing(in_place(grace=30, max_unavailable=2), pods=pods, nodes=3, change=change, **fields)


def test_one_that_serves_is_drained_first() -> None:
    check(graced(old(0), old(1), old(2)), "DrainPod node-2", "DrainPod node-1")


def test_so_is_one_that_is_ready_and_not_available_yet() -> None:
    """Its Services send it requests already."""
    young = gated(pod("node-0", "v1", ready=ago(5)))
    check(changing(in_place(grace=30, min_ready=60), pods=[young], nodes=1), "DrainPod node-0")


def test_one_that_is_not_ready_loses_no_time() -> None:
    unready = gated(pod("node-0", "v1", ready=None))
    check(changing(in_place(grace=30, min_ready=60), pods=[unready], nodes=1), "*node-0 v2")


def test_where_nothing_restarts_it_is_not() -> None:
    check(graced(old(0), old(1), old(2), change=BY_LABEL), "*node-2 v2", "*node-1 v2")


@pytest.mark.parametrize(
    ("since", "expected", "wake"),
    [
        (NOW, [], NOW + 31),
        (NOW - 30, [], NOW + 1),
        (NOW - 31, ["*node-0 v2"], None),
        (None, ["*node-0 v2"], None),
        (NOW + 30, [], NOW + 61),
        (NOW + 31, ["*node-0 v2"], None),
        (NOW + 86_400, ["*node-0 v2"], None),
    ],
    ids=["begun", "nearly over", "over", "of no time", "by another clock", "by a wrong clock", "of tomorrow"],
)
def test_a_drained_one_waits_for_the_end_of_the_grace_period(
    since: float | None, expected: list[str], wake: float | None
) -> None:
    start = changing(in_place(grace=30), pods=[old(draining=True, since=since)], nodes=1)
    found = check(start, *expected)
    if wake is not None:
        assert found.wake_at == wake


def test_one_that_is_in_the_middle_of_another_update_does_not_wait() -> None:
    busy = gated(pod("node-0", "v1"), in_progress=RESTARTING, draining=True, since=ago(1))
    check(changing(in_place(grace=30), pods=[busy], nodes=1), "*node-0 v2")


def test_after_a_failure_a_dry_run_comes_before_the_loss_of_traffic() -> None:
    start = changing(pods=[old()], nodes=1)
    first = [one for one in plan(start).actions if isinstance(one, UpdateInPlace)]
    again = plan(replace(start, due_again={BackoffKey("object", "uid-node-0-v1"): ago(1)})).actions
    assert [one.tried for one in first] == [False]
    assert [isinstance(one, UpdateInPlace) and one.tried for one in again] == [True]


def test_where_writes_fail_the_others_go_on() -> None:
    start = changing(
        pods=[old(n) for n in range(3)], nodes=3, in_backoff={BackoffKey("object", "uid-node-2-v1"): NOW + 30}
    )
    check(start, "*node-1 v2")


def test_no_more_than_the_burst() -> None:
    check(
        changing(in_place(burst=2, max_unavailable="100%"), pods=[old(n) for n in range(5)]),
        "*node-4 v2",
        "*node-3 v2",
    )


def test_the_gate_of_old_pods_that_stay_is_left_alone() -> None:
    assert gate().open
    check(changing(in_place(partition=5), pods=[old(n) for n in range(5)]))
    check(world(in_place("v1"), pods=everywhere(5)))
