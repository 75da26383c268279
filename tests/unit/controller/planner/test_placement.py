"""What should exist on each node."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api.daemonset import Counts
from controller.api.names import FAILED_DAEMON_POD, SELECTING_ALL, SUCCEEDED_DAEMON_POD
from controller.api.selector import LabelSelector
from controller.planner.actions import CreatePod, DeletePod, DeleteReason
from controller.planner.plan import plan
from controller.planner.world import World
from tests.beds.toy_cluster import ToyCluster
from tests.beds.worlds import NOW, ago, at, before, check, ds, everywhere, failed, node, pending, pod, taint, world

BLUE = {"color": "blue"}
X, EXECUTE = taint("x"), taint("x", "NoExecute")


def several(on: str, count: int, **fields: Any) -> list[Any]:
    """The first is the oldest."""
    return [pod(on, name=f"{on}-{number}", created=ago(100 - number), **fields) for number in range(count)]


CASES: dict[str, tuple[World, str]] = {
    "deletes are limited by the burst too": (
        at("v1 v1 v1", "v1", burst=2, nodeSelector=BLUE),
        "-node-0 v1, -node-1 v1",
    ),
    "a failed pod in its back-off waits for itself only": (
        at("- v1x v1", "v1", not_before={"node-1": NOW + 60}),
        "+node-0 v1",
    ),
    "NoSchedule leaves a pod, NoExecute removes it": (
        at("v1 v1 -", "v1", nodes=[node("node-0", X), node("node-1", EXECUTE), node("node-2", X)]),
        "-node-1 v1",
    ),
    "of two pods on a node that may only keep one the newer goes": (
        world(nodes=[node("node-0", X)], pods=several("node-0", 2)),
        "-node-0 v1 node-0-1",
    ),
    "while the old pod terminates no other is made": (at("v1†", "v1"), ""),
    "with surge its successor is": (at("v1†", "v1", max_surge=1), "+node-0 v1"),
    "a terminating pod of a vanished node is not deleted twice": (
        world(nodes=1, pods=[pod("node-0"), pending("node-9", terminating=True)]),
        "",
    ),
    "an ended pod that a finalizer holds holds nothing up": (
        world(nodes=1, pods=[pod("node-0", phase="Succeeded", terminating=True, finalizers=("demo.io/hold",))]),
        "+node-0 v1",
    ),
    "the bound pod is kept though the pending one is older": (
        world(nodes=1, pods=[pending("node-0", name="old", created=10.0), pod("node-0", name="bound", created=20.0)]),
        "-node-0 v1 old",
    ),
    "the older of two bound pods is kept, a terminating third ignored": (
        world(nodes=1, pods=[*several("node-0", 2), pod("node-0", terminating=True, created=1.0)]),
        "-node-0 v1 node-0-1",
    ),
    "at the same age the name decides": (
        world(nodes=1, pods=[pod("node-0", name="b"), pod("node-0", name="a")]),
        "-node-0 v1 b",
    ),
    "pods that aim at no node are not ours to judge": (
        world(nodes=1, pods=[pod("node-0"), pod("", name="lost", bound=False)]),
        "",
    ),
}


@pytest.mark.parametrize(("of", "expected"), CASES.values(), ids=CASES)
def test_placement(of: World, expected: str) -> None:
    check(of, expected)


@pytest.mark.parametrize(
    ("burst", "passes"),
    [
        (2, ["+node-0 v1, +node-1 v1", "+node-2 v1, +node-3 v1", "+node-4 v1", ""]),
        ("10%", ["+node-0 v1", "+node-1 v1", "+node-2 v1", "+node-3 v1", "+node-4 v1", ""]),
        ("40%", ["+node-0 v1, +node-1 v1", "+node-2 v1, +node-3 v1", "+node-4 v1", ""]),
        (0, ["+node-0 v1", "+node-1 v1"]),
    ],
)
def test_no_pass_creates_more_than_the_burst_and_none_stands_still(burst: str | int, passes: list[str]) -> None:
    ToyCluster(world(ds(burst=burst))).expect(*passes)


def test_without_a_burst_250_are_created_and_no_more() -> None:
    created = [action.node for action in plan(world(nodes=300)).actions if isinstance(action, CreatePod)]
    assert created == sorted(f"node-{number}" for number in range(300))[:250]


def test_a_terminating_daemonset_is_left_to_the_garbage_collector() -> None:
    assert check(at("v1 v1x", "v1", terminating=True)).status is None


def test_an_empty_selector_does_nothing_but_say_so() -> None:
    decided = check(world(ds(pods=LabelSelector()), pods=everywhere(1)))
    assert [note.reason for note in decided.notes] == [SELECTING_ALL]


def test_missing_pods_come_surplus_goes_and_foreign_labels_go_first() -> None:
    pods = [*several("node-1", 1), *several("node-2", 2), *several("node-3", 5)]
    pods += several("node-4", 2, labels={"app": "other"})
    ToyCluster(world(pods=pods)).expect(
        "release node-4-0, release node-4-1",
        "-node-2 v1 node-2-1, -node-3 v1 node-3-1, -node-3 v1 node-3-2, -node-3 v1 node-3-3, -node-3 v1 node-3-4, "
        "+node-0 v1, +node-4 v1",
        "",
    )


def test_a_pod_follows_the_label_of_its_node() -> None:
    cluster = ToyCluster(world(ds(nodeSelector=BLUE), nodes=2))
    cluster.expect("")
    cluster.set_nodes(node("node-1", labels=BLUE))
    cluster.expect("+node-1 v1", "")
    cluster.set_nodes(node("node-1", labels={"color": "green"}))
    cluster.expect("-node-1 v1", "")
    cluster.edit(ds("v2", nodeSelector={"color": "green"}))
    cluster.expect("+node-1 v2", "")


@pytest.mark.parametrize(
    ("gone_wrong", "running", "planned"),
    [
        (0, 1, ""),
        (0, 0, "+node-0 v1"),
        (1, 0, "-node-0 v1"),
        (1, 3, "-node-0 v1 failed-0, -node-0 v1 node-0-1, -node-0 v1 node-0-2"),
    ],
)
def test_failed_pods_go_and_of_several_running_ones_the_oldest_stays(
    gone_wrong: int, running: int, planned: str
) -> None:
    pods = [failed("node-0", name=f"failed-{number}") for number in range(gone_wrong)] + several("node-0", running)
    decided = check(world(nodes=1, pods=pods), planned)
    assert [note.reason for note in decided.notes] == [FAILED_DAEMON_POD] * gone_wrong
    assert all(note.warning and "Found failed daemon pod" in note.message for note in decided.notes)


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_inside_the_back_off_an_ended_pod_stays_and_the_plan_wakes_up(phase: str) -> None:
    pods = [pod("node-0", phase=phase), pod("node-1")]
    decided = check(world(nodes=2, pods=pods, not_before={"node-0": NOW + 2}))
    assert decided.wake_at == NOW + 2
    assert not decided.notes, "nothing is said before something is done"
    check(world(nodes=2, pods=pods, not_before={"node-0": NOW}), "-node-0 v1")


def test_inside_the_back_off_an_empty_node_stays_empty_and_an_old_pod_stays() -> None:
    pods = [pod("node-1", "v1"), pod("node-2", "v1", ready=False)]
    waiting = {f"node-{number}": NOW + 60 for number in range(3)}
    decided = check(world(ds("v2", max_unavailable=3), nodes=3, pods=pods, not_before=waiting))
    assert decided.wake_at == NOW + 60


@pytest.mark.parametrize(
    ("how", "passes"),
    [
        ({}, ["-node-0 v1", "+node-0 v1"]),
        ({"terminating": True, "finalizers": ("demo.io/hold",)}, ["+node-0 v1", ""]),
    ],
    ids=["failed", "failed and held by a finalizer"],
)
def test_the_name_of_a_failed_pod_is_not_given_to_its_successor(how: dict[str, Any], passes: list[str]) -> None:
    """Without a predecessor in memory both names would be derived from an empty node."""
    cluster = ToyCluster(world(nodes=1))
    cluster.expect("+node-0 v1")
    first = cluster.world.pods[0].name
    cluster.change_where(lambda one: True, phase="Failed", **how)
    cluster.expect(*passes)
    assert cluster.world.pods[-1].name != first


def test_a_succeeded_pod_is_replaced() -> None:
    decided = check(world(nodes=1, pods=[pod("node-0", phase="Succeeded")]), "-node-0 v1")
    assert [(note.reason, note.warning) for note in decided.notes] == [(SUCCEEDED_DAEMON_POD, False)]
    assert "Found succeeded daemon pod" in decided.notes[0].message
    assert [action.why for action in decided.actions if isinstance(action, DeletePod)] == [DeleteReason.SUCCEEDED]


def test_a_pending_pod_of_a_vanished_node_is_deleted_a_bound_one_not() -> None:
    decided = check(at("v1 v1 v1? v1", "v1", nodes=2), "-node-2 v1")
    assert decided.status is not None
    assert decided.status.counts == Counts(
        desired_number_scheduled=2,
        current_number_scheduled=2,
        number_ready=2,
        updated_number_scheduled=2,
        number_available=2,
    )


def test_an_orphan_is_adopted_and_then_treated_like_any_duplicate() -> None:
    orphan = pod("node-0", name="orphan", created=10.0, owner="")
    cluster = ToyCluster(world(nodes=1, pods=[pod("node-0", name="ours", created=20.0)], orphans=(orphan,)))
    cluster.expect("adopt orphan", "-node-0 v1 ours", "")


def test_a_stale_cache_is_looked_at_but_nothing_is_touched() -> None:
    decided = check(at("v1x", "v1", fresh=False))
    assert decided.status is not None
    assert decided.status.observed_generation is None


def test_a_repeated_create_has_the_same_name_until_the_first_one_was_seen() -> None:
    def name(**fields: Any) -> str:
        [created] = plan(world(nodes=1, **fields)).actions
        assert isinstance(created, CreatePod)
        return created.name

    first = name()
    assert name() == first, "an answer was lost: the server will say AlreadyExists"
    assert name(predecessors=before("node-0")) != first, "a pod was there and has gone"
    assert name(pods=[failed("node-0", terminating=True)]) != first, "a pod is there and leaves"
