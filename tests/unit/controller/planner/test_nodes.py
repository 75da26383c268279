"""What the pods of one node count for."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.names import LIFECYCLE_STATE_LABEL, PREPARING_DELETE
from controller.api.pod import Pod
from controller.planner.nodes import NodeInfo
from controller.planner.rollout_state import rollout_state
from controller.planner.world import ClockOffset, Predecessor
from tests.beds.worlds import NOW, ago, before, ds, failed, pod, world


def node(*pods: Pod, rev: str = "v2", min_ready: int = 0, **fields: Any) -> NodeInfo:
    return rollout_state(world(ds(rev, min_ready=min_ready), nodes=["n"], pods=pods, **fields)).nodes[0]


def next_available(*pods: Pod, min_ready: int, **fields: Any) -> float | None:
    return rollout_state(world(ds("v2", min_ready=min_ready), nodes=["n"], pods=pods, **fields)).next_available


@pytest.mark.parametrize(
    ("ready", "min_ready", "available", "moment"),
    [
        (None, 0, False, None),
        (None, 5, False, None),
        (ago(0), 0, True, None),
        (ago(9), 30, False, NOW + 21),
        (ago(30), 30, False, NOW),
        (ago(30.5), 30, True, None),
    ],
)
def test_a_pod_is_available_after_it_was_ready_for_min_ready_seconds(
    ready: float | None, min_ready: int, available: bool, moment: float | None
) -> None:
    new = pod("n", "v2", ready=ready)
    assert node(new, min_ready=min_ready).current_available is available
    assert next_available(new, min_ready=min_ready) == moment


def test_of_two_pods_the_ready_one_stays_and_then_the_one_that_is_not_prepared() -> None:
    held = {LIFECYCLE_STATE_LABEL: PREPARING_DELETE}
    unready, going = pod("n", "v1", name="b", ready=None), pod("n", "v1", name="a", ready=None, labels=held)
    assert node(going, unready).old == unready, "although the other one is first by name"
    back = replace(going, drained=True)
    assert node(unready, back).old == back


def test_the_earliest_of_the_moments_is_woken_for() -> None:
    pods = [pod("n", "v2", name="a", ready=ago(5)), pod("n", "v1", name="b", ready=ago(9))]
    assert next_available(*pods, min_ready=30) == NOW + 21
    assert next_available(*reversed(pods), min_ready=30) == NOW + 21


def test_a_node_clock_ahead_of_ours_is_not_waited_for() -> None:
    hasty = pod("n", "v2", ready=NOW + 3600)
    assert next_available(hasty, min_ready=30, ready_seen={hasty.uid: ago(10)}) == NOW + 20
    assert node(hasty, min_ready=30, ready_seen={hasty.uid: ago(31)}).current_available
    assert next_available(hasty, min_ready=30) == NOW + 3630


@pytest.mark.parametrize(
    ("said", "seen", "moment"),
    [
        (ago(2), None, NOW + 1),
        (ago(2), ago(1.5), NOW + 1),
        (ago(20), ago(1), NOW + 1),
        (ago(20), ago(2.5), None),
        (NOW + 20, ago(1), NOW + 2),
        (ago(20), None, None),
    ],
    ids=["by its word", "in good time", "behind", "behind, and proven", "ahead", "older than this process"],
)
def test_a_restarted_container_has_to_run_whatever_its_nodes_clock_says(
    said: float, seen: float | None, moment: float | None
) -> None:
    new = replace(pod("n", "v2"), restarted_at=said, updated_at=said)
    fields: dict[str, Any] = {"restarts_seen": {} if seen is None else {new.uid: seen}}
    assert next_available(new, min_ready=0, **fields) == moment
    assert node(new, **fields).current_available is (moment is None)
    assert node(replace(new, updated_at=None), **fields).current_available, "as any pod"


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_ended_is_not_live_whatever_its_ready_condition_says(phase: str) -> None:
    ended = node(pod("n", "v2", phase=phase))
    assert ended.current is None
    assert not ended.current_available


def test_of_several_pods_of_a_kind_the_one_that_serves_is_looked_at() -> None:
    first, second = pod("n", name="a", created=ago(9), ready=None), pod("n", name="b", created=ago(5))
    assert node(first, second).old is second
    assert node(first, second, rev="v1").current is second


def test_of_several_pods_that_do_not_serve_a_bound_one_counts() -> None:
    first, second = pod("n", name="a", created=ago(9), ready=None, bound=False), pod("n", name="b", ready=None)
    assert node(first, second).old is second


def test_of_several_pods_that_serve_the_oldest_is_looked_at() -> None:
    first, second = pod("n", name="a", created=ago(9)), pod("n", name="b", created=ago(5))
    assert node(second, first).old is first


@pytest.mark.parametrize(
    ("pods", "had_current", "had_old"),
    [
        ([], False, False),
        ([pod("n", "v2", terminating=True)], True, False),
        ([failed("n", "v1")], False, True),
        ([pod("n", "v1"), pod("n", "v2", terminating=True)], True, True),
    ],
)
def test_what_was_there(pods: list[Pod], had_current: bool, had_old: bool) -> None:
    seen = node(*pods)
    assert (seen.had_current, seen.had_old) == (had_current, had_old)


def test_the_last_pod_of_an_empty_node_is_remembered() -> None:
    assert node(predecessors=before("n", "v2")).had_current
    assert node(predecessors=before("n", "v1")).had_old
    assert node(predecessors=before("n", "")).had_old, "a pod that was adopted without a revision"


def test_a_name_in_the_way_is_no_pod_that_was_there() -> None:
    blocked = node(predecessors={"n": Predecessor(uid="not demo-1")})
    assert (blocked.had_current, blocked.had_old) == (False, False)


@pytest.mark.parametrize(("ahead", "behind"), [(30.0, 0.0), (0.0, 0.0), (-0.9, 0.0), (-3.0, 2.0)])
def test_a_server_is_behind_by_what_is_certain(ahead: float, behind: float) -> None:
    """What it is ahead by is rounded down."""
    assert ClockOffset(ahead=ahead).behind == behind
