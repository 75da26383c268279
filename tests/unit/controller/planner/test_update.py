"""How the old pods whose turn it is get the current revision: in place, drained first, or by a new pod."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.daemonset import LifecycleHook
from controller.inplace.change import InPlaceChange, NotPossible
from controller.planner.actions import UpdateInPlace
from controller.planner.plan import plan
from controller.planner.world import BackoffKey, World
from tests.beds.worlds import (
    BY_IMAGE,
    BY_LABEL,
    BY_RESIZE,
    LABELS,
    NOW,
    RESTARTING,
    ago,
    at,
    changing,
    check,
    ds,
    gated,
    in_place,
    node,
    pending,
    pod,
    taint,
)

REREADS = InPlaceChange(labels={"a": "b"}, rereads=("main",))
IMPOSSIBLE = NotPossible(why="spec.containers[main].env added")
HOOK = LifecycleHook(labels_handler=LABELS)


def old(number: int = 0, **how: Any) -> Any:
    return gated(pod(f"node-{number}", "v1"), **how)


def all_old(count: int) -> list[Any]:
    return [old(number) for number in range(count)]


BUSY = gated(pod("node-4", "v2"), in_progress=RESTARTING)
READY_BUSY = replace(gated(pod("node-4", "v2")), in_progress=replace(RESTARTING, not_started=False))
BROKEN = [gated(pod(f"node-{n}", "v1", ready=None), in_progress=RESTARTING) for n in (1, 3)]
SILENT = [node("node-0", taint("node.kubernetes.io/unreachable", "NoExecute"))]
CASES: dict[str, tuple[World, str]] = {
    "within maxUnavailable by name, descending": (
        changing(pods=all_old(5), max_unavailable=2),
        "*node-4 v2, *node-3 v2",
    ),
    "a pod that is being updated uses the budget": (
        changing(pods=[*all_old(4), BUSY], max_unavailable=2),
        "*node-3 v2",
    ),
    "so it does while it is ready all the time, in a resize": (changing(pods=[*all_old(4), READY_BUSY]), ""),
    "one that is not available is updated at once: that heals it": (
        changing(pods=[old(0), BROKEN[0], old(2), BROKEN[1], old(4)]),
        "*node-3 v2, *node-1 v2",
    ),
    "without a restart labels need no gate": (changing(pods=[pod("node-0")], change=BY_LABEL), "*node-0 v2"),
    "nor do resources": (changing(pods=[pod("node-0")], change=BY_RESIZE), "*node-0 v2"),
    "a pod that no node has yet is recreated": (changing(pods=[gated(pending("node-0"))]), "-node-0 v1"),
    "a pause keeps this update too": (changing(pods=[old()], paused=True), ""),
    "OnDelete does": (changing(ds("v2", on_delete=True), pods=[old()]), ""),
    "the partition does": (changing(pods=[old()], partition=1), ""),
    "the selector does": (changing(pods=[old()], selector={"track": "canary"}), ""),
    "an unreachable node is left alone": (changing(pods=[old()], nodes=SILENT), ""),
    "the preDelete hook holds no update in place": (changing(pods=[old()], hook=HOOK), "*node-0 v2"),
    "but one that recreates": (changing(pods=[old()], hook=HOOK, change=IMPOSSIBLE), "~node-0 v1"),
    "of another type pods are recreated": (at("v1", pods=[old()]), "-node-0 v1"),
    "where writes fail the others go on": (
        changing(pods=all_old(3), in_backoff={BackoffKey("object", "uid-node-2-v1"): NOW + 30}),
        "*node-1 v2",
    ),
    "no more than the burst": (
        changing(pods=all_old(5), burst=2, max_unavailable="100%"),
        "*node-4 v2, *node-3 v2",
    ),
    "the gate of old pods that stay is left alone": (changing(pods=all_old(5), partition=5), ""),
    "pods without one get none": (at("v1 v1", "v1", rolling_update_type="InPlaceIfPossible"), ""),
    "in the grace period one that serves is drained first": (
        changing(pods=all_old(3), grace=30, max_unavailable=2),
        "DrainPod node-2, DrainPod node-1",
    ),
    "so is one that is ready and not available yet, for Services send it requests": (
        changing(pods=[gated(pod("node-0", ready=ago(5)))], grace=30, min_ready=60),
        "DrainPod node-0",
    ),
    "one that is not ready loses no time": (
        changing(pods=[gated(pod("node-0", ready=None))], grace=30, min_ready=60),
        "*node-0 v2",
    ),
    "where nothing restarts it is not drained": (changing(pods=[old()], grace=30, change=BY_LABEL), "*node-0 v2"),
    "one in the middle of another update does not wait": (
        changing(pods=[old(in_progress=RESTARTING, draining=True, since=ago(1))], grace=30),
        "*node-0 v2",
    ),
}


@pytest.mark.parametrize(("of", "expected"), CASES.values(), ids=CASES)
def test_an_update_in_place(of: World, expected: str) -> None:
    check(of, expected)


@pytest.mark.parametrize(
    ("change", "pods", "why"),
    [
        (IMPOSSIBLE, [old()], "spec.containers[main].env added"),
        (BY_IMAGE, [pod("node-0", "v1")], "they were made without the readiness gate InPlaceUpdateReady"),
        (None, [old()], "their revision is not stored any more"),
        (REREADS, [old()], "reads a changed label or annotation from its environment"),
    ],
)
def test_recreated_it_says_why(change: Any, pods: Any, why: str) -> None:
    found = check(changing(pods=pods, **({"change": change} if change else {"changes": {}})), "-node-0 v1")
    (note,) = [one for one in found.notes if one.reason == "InPlaceUpdateNotPossible"]
    assert why in note.message
    assert note.once


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
    start = changing(pods=[replace(old(), has_node_agent=agent)], change=REREADS, reads_env=gate_on)
    found = check(start, "-node-0 v1" if lacking else "*node-0 v2")
    assert [one.message.rpartition(", and ")[2] for one in found.notes] == ([lacking] if lacking else [])


@pytest.mark.parametrize(
    ("since", "expected", "wake"),
    [
        (NOW, "", NOW + 31),
        (NOW - 30, "", NOW + 1),
        (NOW - 31, "*node-0 v2", None),
        (None, "*node-0 v2", None),
        (NOW + 30, "", NOW + 61),
        (NOW + 31, "*node-0 v2", None),
        (NOW + 86_400, "*node-0 v2", None),
    ],
    ids=["begun", "nearly over", "over", "of no time", "by another clock", "by a wrong clock", "of tomorrow"],
)
def test_a_drained_one_waits_for_the_end_of_the_grace_period(
    since: float | None, expected: str, wake: float | None
) -> None:
    found = check(changing(in_place(grace=30), pods=[old(draining=True, since=since)]), expected)
    assert wake is None or found.wake_at == wake


def test_after_a_failure_a_dry_run_comes_before_the_loss_of_traffic() -> None:
    start = changing(pods=[old()])
    first = [one for one in plan(start).actions if isinstance(one, UpdateInPlace)]
    again = plan(replace(start, due_again={BackoffKey("object", "uid-node-0-v1"): ago(1)})).actions
    assert [one.tried for one in first] == [False]
    assert [isinstance(one, UpdateInPlace) and one.tried for one in again] == [True]
