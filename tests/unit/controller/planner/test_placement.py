"""What should exist on each node."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api.names import FAILED_DAEMON_POD, SELECTING_ALL, SUCCEEDED_DAEMON_POD
from controller.api.pod import Pod
from controller.api.selector import LabelSelector
from controller.planner.actions import CreatePod, DeletePod, DeleteReason
from controller.planner.plan import plan
from tests.beds.toy_cluster import ToyCluster
from tests.beds.worlds import (
    NOW,
    ago,
    before,
    check,
    ds,
    everywhere,
    failed,
    node,
    pending,
    pod,
    served,
    taint,
    world,
)

BLUE = {"color": "blue"}


def test_five_empty_nodes_get_a_pod_each_in_ascending_order() -> None:
    check(world(), "+node-0 v1", "+node-1 v1", "+node-2 v1", "+node-3 v1", "+node-4 v1")


def test_without_nodes_nothing_happens() -> None:
    check(world(nodes=0))


def test_no_pass_creates_more_than_the_burst_and_the_next_goes_on() -> None:
    cluster = ToyCluster(world(ds(burst=2)))
    cluster.expect("+node-0 v1, +node-1 v1", "+node-2 v1, +node-3 v1", "+node-4 v1", "")


def test_without_a_burst_250_are_created_and_no_more() -> None:
    decided = plan(world(nodes=300))
    created = [action.node for action in decided.actions if isinstance(action, CreatePod)]
    assert len(created) == 250
    assert created == sorted(f"node-{number}" for number in range(300))[:250]


def test_deletes_are_limited_by_the_burst_too() -> None:
    unwanted = world(ds(burst=2, nodeSelector=BLUE), nodes=3, pods=everywhere(3))
    check(unwanted, "-node-0 v1", "-node-1 v1")


def test_requests_and_ports_are_the_schedulers_business() -> None:
    hungry = {"name": "main", "image": "demo:v1", "resources": {"requests": {"cpu": "999", "demo.io/gpu": 9}}}
    check(world(ds(containers=[{**hungry, "ports": [{"hostPort": 80}]}]), nodes=1), "+node-0 v1")


def test_a_terminating_daemonset_is_left_to_the_garbage_collector() -> None:
    decided = check(world(ds(terminating=True), pods=[pod("node-0"), failed("node-1")]))
    assert decided.status is None


def test_an_empty_selector_does_nothing_but_say_so() -> None:
    decided = check(world(ds(pods=LabelSelector()), pods=everywhere(1)))
    assert [note.reason for note in decided.notes] == [SELECTING_ALL]


def test_a_selector_that_hits_no_node_creates_nothing() -> None:
    check(world(ds(nodeSelector=BLUE)))


@pytest.mark.parametrize(
    ("spec", "created"),
    [
        ({"nodeName": "node-1"}, ["+node-1 v1"]),
        ({"nodeName": "elsewhere"}, []),
        ({"nodeName": "node-1", "nodeSelector": BLUE}, []),
    ],
)
def test_a_node_name_in_the_template(spec: dict[str, Any], created: list[str]) -> None:
    check(world(ds(**spec), nodes=3), *created)


def test_missing_pods_come_surplus_goes_and_foreign_labels_go_first() -> None:
    def several(on: str, count: int, **fields: Any) -> list[Pod]:
        return [pod(on, name=f"{on}-{number}", created=ago(100 - number), **fields) for number in range(count)]

    pods = [*several("node-1", 1), *several("node-2", 2), *several("node-3", 5)]
    pods += several("node-4", 2, labels={"app": "other"})
    cluster = ToyCluster(world(pods=pods))
    cluster.expect(
        "release node-4-0, release node-4-1",
        "-node-2 v1 node-2-1, -node-3 v1 node-3-1, -node-3 v1 node-3-2, -node-3 v1 node-3-3, -node-3 v1 node-3-4, "
        "+node-0 v1, +node-4 v1",
        "",
    )


def test_narrowed_to_blue_nodes_only_those_keep_and_get_pods() -> None:
    nodes = ["node-0", "node-1", node("node-2", labels=BLUE), node("node-3", labels=BLUE)]
    pods = [pod("node-0"), pod("node-1", name="a"), pod("node-1", name="b"), pod("node-2")]
    check(
        world(ds(nodeSelector=BLUE), nodes=nodes, pods=pods),
        "-node-0 v1",
        "-node-1 v1 a",
        "-node-1 v1 b",
        "+node-3 v1",
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
        (0, 1, []),
        (0, 0, ["+node-0 v1"]),
        (1, 0, ["-node-0 v1"]),
        (1, 3, ["-node-0 v1 failed-0", "-node-0 v1 running-1", "-node-0 v1 running-2"]),
    ],
)
def test_failed_pods_go_and_of_several_running_ones_the_oldest_stays(
    gone_wrong: int, running: int, planned: list[str]
) -> None:
    pods = [failed("node-0", name=f"failed-{number}") for number in range(gone_wrong)]
    pods += [pod("node-0", name=f"running-{number}", created=ago(100 - number)) for number in range(running)]
    decided = check(world(nodes=1, pods=pods), *planned)
    assert [note.reason for note in decided.notes] == [FAILED_DAEMON_POD] * gone_wrong
    assert all(note.warning and "Found failed daemon pod" in note.message for note in decided.notes)


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_inside_the_back_off_an_ended_pod_stays_and_the_plan_wakes_up(phase: str) -> None:
    pods = [pod("node-0", phase=phase), pod("node-1")]
    early = world(nodes=2, pods=pods, not_before={"node-0": NOW + 2})
    decided = check(early)
    assert decided.wake_at == NOW + 2
    assert not decided.notes, "nothing is said before something is done"
    check(world(nodes=2, pods=pods, not_before={"node-0": NOW}), "-node-0 v1")


def test_a_failed_pod_waits_for_itself_only() -> None:
    waiting = world(nodes=3, pods=[failed("node-1"), pod("node-2")], not_before={"node-1": NOW + 60})
    check(waiting, "+node-0 v1")


def test_inside_the_back_off_an_empty_node_stays_empty_and_an_old_pod_stays() -> None:
    pods = [pod("node-1", "v1"), pod("node-2", "v1", ready=False)]
    waiting = {f"node-{number}": NOW + 60 for number in range(3)}
    decided = check(world(ds("v2", max_unavailable=3), nodes=3, pods=pods, not_before=waiting))
    assert decided.wake_at == NOW + 60


def test_after_the_failed_pod_its_node_gets_a_new_one_with_another_name() -> None:
    cluster = ToyCluster(world(nodes=1))
    cluster.expect("+node-0 v1")
    first = cluster.world.pods[0].name
    cluster.change_where(lambda one: True, phase="Failed")
    cluster.expect("-node-0 v1", "+node-0 v1")
    assert cluster.world.pods[0].name != first


def test_a_succeeded_pod_is_replaced() -> None:
    done = pod("node-0", phase="Succeeded")
    decided = check(world(nodes=1, pods=[done]), "-node-0 v1")
    assert [(note.reason, note.warning) for note in decided.notes] == [(SUCCEEDED_DAEMON_POD, False)]
    assert "Found succeeded daemon pod" in decided.notes[0].message
    assert [action.why for action in decided.actions if isinstance(action, DeletePod)] == [DeleteReason.SUCCEEDED]


def test_a_no_schedule_taint_leaves_a_pod_and_no_execute_removes_it() -> None:
    nodes = [node("node-0", taint("x")), node("node-1", taint("x", "NoExecute")), node("node-2", taint("x"))]
    check(world(nodes=nodes, pods=served("node-0", "node-1")), "-node-1 v1")


def test_of_two_pods_on_a_node_that_may_only_keep_one_the_newer_goes() -> None:
    pods = [pod("node-0", name="a", created=ago(9)), pod("node-0", name="b", created=ago(5))]
    check(world(nodes=[node("node-0", taint("x"))], pods=pods), "-node-0 v1 b")


def test_while_the_old_pod_terminates_no_other_is_made_without_surge() -> None:
    check(world(nodes=1, pods=[pod("node-0", terminating=True)]))


def test_while_the_old_pod_terminates_its_successor_is_made_with_surge() -> None:
    check(world(ds(max_surge=1), nodes=1, pods=[pod("node-0", terminating=True)]), "+node-0 v1")


def test_a_pending_pod_of_a_vanished_node_is_deleted_a_bound_one_not() -> None:
    pods = [*served("node-0", "node-1"), pending("node-2"), pod("node-3")]
    decided = check(world(nodes=2, pods=pods), "-node-2 v1")
    assert decided.status is not None
    assert decided.status.counts is not None
    assert decided.status.counts.desired_number_scheduled == 2
    assert decided.status.counts.current_number_scheduled == 2
    assert decided.status.counts.number_misscheduled == 0


def test_a_terminating_pod_of_a_vanished_node_is_not_deleted_twice() -> None:
    check(world(nodes=1, pods=[pod("node-0"), pending("node-9", terminating=True)]))


def test_a_pod_that_ended_and_is_held_by_a_finalizer_holds_nothing_up() -> None:
    held = pod("node-0", phase="Succeeded", terminating=True, finalizers=("demo.io/hold",))
    check(world(nodes=1, pods=[held]), "+node-0 v1")


def test_the_name_of_a_held_pod_is_not_given_to_its_successor() -> None:
    """Without a predecessor in memory both names would be derived from an empty node."""
    cluster = ToyCluster(world(nodes=1))
    cluster.expect("+node-0 v1")
    cluster.change_where(lambda one: True, phase="Failed", terminating=True, finalizers=("demo.io/hold",))
    cluster.expect("+node-0 v1", "")
    assert len({one.name for one in cluster.world.pods}) == 2


def test_a_pod_deleted_by_hand_comes_back_on_its_node_and_revision() -> None:
    cluster = ToyCluster(world(nodes=3, pods=everywhere(3)))
    cluster.lose("node-1-v1")
    cluster.expect("+node-1 v1", "")


def test_the_bound_pod_is_kept_though_the_pending_one_is_older() -> None:
    pods = [pending("node-0", name="old", created=10.0), pod("node-0", name="bound", created=20.0)]
    check(world(nodes=1, pods=pods), "-node-0 v1 old")


def test_the_older_of_two_bound_pods_is_kept_a_terminating_third_ignored() -> None:
    pods = [
        pod("node-0", name="young", created=20.0),
        pod("node-0", name="old", created=10.0),
        pod("node-0", name="leaving", created=5.0, terminating=True),
    ]
    check(world(nodes=1, pods=pods), "-node-0 v1 young")


def test_at_the_same_age_the_name_decides() -> None:
    check(world(nodes=1, pods=[pod("node-0", name="b"), pod("node-0", name="a")]), "-node-0 v1 b")


def test_an_orphan_is_adopted_and_then_treated_like_any_duplicate() -> None:
    orphan = pod("node-0", name="orphan", created=10.0, owner="")
    cluster = ToyCluster(world(nodes=1, pods=[pod("node-0", name="ours", created=20.0)], orphans=(orphan,)))
    cluster.expect("adopt orphan", "-node-0 v1 ours", "")


@pytest.mark.parametrize(
    ("burst", "waves"),
    [
        ("10%", ["+node-0 v1", "+node-1 v1", "+node-2 v1", "+node-3 v1", "+node-4 v1", ""]),
        ("40%", ["+node-0 v1, +node-1 v1", "+node-2 v1, +node-3 v1", "+node-4 v1", ""]),
        (0, ["+node-0 v1", "+node-1 v1"]),
    ],
)
def test_a_burst_percentage_never_stands_still(burst: str | int, waves: list[str]) -> None:
    ToyCluster(world(ds(burst=burst))).expect(*waves)


def test_a_stale_cache_is_looked_at_but_nothing_is_touched() -> None:
    decided = check(world(fresh=False, pods=[failed("node-0")]))
    assert decided.status is not None
    assert decided.status.observed_generation is None


def test_pods_that_aim_at_no_node_are_not_ours_to_judge() -> None:
    check(world(nodes=1, pods=[pod("node-0"), pod("", name="lost", bound=False)]))


def test_a_repeated_create_has_the_same_name_until_the_first_one_was_seen() -> None:
    def name(**fields: Any) -> str:
        [created] = plan(world(nodes=1, **fields)).actions
        assert isinstance(created, CreatePod)
        return created.name

    first = name()
    assert name() == first, "an answer was lost: the server will say AlreadyExists"
    assert name(predecessors=before("node-0")) != first, "a pod was there and has gone"
    ghost = pod("node-0", phase="Failed", terminating=True)
    assert name(pods=[ghost]) != first, "a pod is there and leaves"
