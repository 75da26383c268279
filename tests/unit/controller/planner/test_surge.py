"""The rolling update within maxSurge.

An API server is slow: what placement deletes and what the update creates come in different passes.
"""

from __future__ import annotations

from typing import Any

from controller.api.daemonset import LifecycleHook, Phase
from controller.api.names import LIFECYCLE_STATE_LABEL, PREPARING_DELETE
from controller.planner.actions import DeletePod, DeleteReason
from controller.planner.world import BackoffKey
from tests.beds.toy_cluster import PREPARED, ToyCluster
from tests.beds.worlds import NOW, ago, check, ds, everywhere, failed, node, pending, pod, served, taint, world

UNREACHABLE = taint("node.kubernetes.io/unreachable", "NoExecute")


def test_new_pods_come_before_old_ones_go() -> None:
    cluster = ToyCluster(world(ds("v1"), pods=everywhere(5)))
    cluster.edit(ds("v2", max_surge=2))
    cluster.expect("+node-4 v2, +node-3 v2", "")
    cluster.ready()
    cluster.expect("-node-3 v1, -node-4 v1", "+node-2 v2, +node-1 v2", "")
    cluster.ready()
    cluster.expect("-node-1 v1, -node-2 v1", "+node-0 v2", "")
    cluster.ready()
    cluster.expect("-node-0 v1", "")
    assert set(cluster.revisions().values()) == {"v2"}


def test_an_old_pod_on_a_node_that_may_only_keep_it_makes_room() -> None:
    nodes = [f"node-{number}" for number in range(4)]
    cluster = ToyCluster(world(ds("v1"), nodes=[*nodes, "node-4"], pods=everywhere(5)))
    cluster.set_nodes(node("node-4", taint("x")))
    cluster.edit(ds("v2", max_surge=1))
    cluster.expect("+node-3 v2, -node-4 v1", "")
    for name, following in (("node-3", "node-2"), ("node-2", "node-1"), ("node-1", "node-0")):
        cluster.ready()
        cluster.expect(f"-{name} v1", f"+{following} v2", "")
    cluster.ready()
    cluster.expect("-node-0 v1", "")


def tainted(**fields: Any) -> ToyCluster:
    """node-0 and node-1 should run a pod; node-2 and node-3 may only keep theirs."""
    nodes = ["node-0", "node-1", node("node-2", taint("x")), node("node-3", taint("x"))]
    pods = fields.pop("pods", everywhere(4))
    return ToyCluster(world(ds("v2", max_surge=1, **fields), nodes=nodes, pods=pods))


def test_such_a_pod_stays_while_not_all_nodes_are_served() -> None:
    pods = [*everywhere(1), pod("node-1", "v2", ready=None), *served("node-2", "node-3")]
    cluster = tainted(pods=pods)
    cluster.expect("+node-0 v2, -node-3 v1", "")
    cluster.ready("node-1")
    cluster.expect("-node-2 v1", "")


def test_such_a_pod_that_serves_nobody_goes_at_once() -> None:
    pods = [*everywhere(2, rev="v2", ready=None), pod("node-2", ready=None), pod("node-3")]
    tainted(pods=pods).expect("-node-2 v1", "")


def test_such_a_pod_stays_where_nothing_may_be_updated() -> None:
    tainted(paused=True).expect("")
    tainted(selector={"track": "canary"}).expect("")


def test_such_a_pod_goes_whatever_the_partition_is() -> None:
    tainted(partition=2).expect("-node-3 v1, -node-2 v1", "")


def nowhere(**fields: Any) -> ToyCluster:
    """Every node has a taint that the new template does not tolerate."""
    nodes = [node(f"node-{number}", taint("x")) for number in range(3)]
    return ToyCluster(world(ds("v2", max_surge=1, **fields), nodes=nodes, pods=everywhere(3)))


def phase(cluster: ToyCluster) -> str:
    assert cluster.plan.status is not None
    return cluster.plan.status.rollout.phase


def test_of_a_template_that_runs_nowhere_old_pods_go_before_the_end() -> None:
    cluster = nowhere()
    cluster.expect("-node-2 v1, -node-1 v1, -node-0 v1")
    assert phase(cluster) == Phase.PROGRESSING
    assert cluster.plan.status is not None
    [ready] = [one for one in cluster.plan.status.conditions if one.type == "Ready"]
    assert ready.message == "3 old pods leave for good: no new one may start there"
    cluster.expect("")
    assert phase(cluster) == Phase.HEALTHY


def test_while_paused_they_stay_and_it_is_not_complete() -> None:
    cluster = nowhere(paused=True)
    cluster.expect("")
    assert phase(cluster) == Phase.PAUSED


def test_without_surge_such_a_pod_stays() -> None:
    nodes = ["node-0", node("node-1", taint("x"))]
    check(world(ds("v2"), nodes=nodes, pods=[pod("node-0", "v2"), pod("node-1")]))


def test_a_ready_old_pod_stays_while_its_partner_is_not_ready() -> None:
    young: dict[str, Any] = {"rev": "v2", "ready": None}
    pods = [*served("node-0", "node-1"), pod("node-1", **young), pod("node-0", **young)]
    check(world(ds("v2", max_surge=2), nodes=2, pods=pods))
    pods[0] = pod("node-0", ready=None)
    decided = check(world(ds("v2", max_surge=2), nodes=2, pods=pods), "-node-0 v1")
    assert [action.why for action in decided.actions if isinstance(action, DeletePod)] == [DeleteReason.SURGED]


def test_at_the_limit_an_old_pod_that_is_lost_leaves_room_for_one_more() -> None:
    pods = [*served("node-0", "node-1"), pod("node-1", "v2", ready=None)]
    cluster = ToyCluster(world(ds("v2", max_surge=1), nodes=2, pods=pods))
    cluster.expect("")
    cluster.lose("node-1-v1")
    cluster.expect("+node-0 v2", "")


def test_an_old_pod_goes_once_its_partner_was_ready_min_ready_seconds() -> None:
    pods = [pod("node-0"), pod("node-0", "v2", ready=ago(10))]
    surging = world(ds("v2", max_surge=1, min_ready=15), nodes=1, pods=pods)
    decided = check(surging)
    assert decided.wake_at is not None
    assert 5 < decided.wake_at - NOW < 5.5, "nothing else may happen, so the plan asks to be woken"
    cluster = ToyCluster(surging)
    cluster.pass_time(5)
    cluster.expect("")
    cluster.pass_time(0.5)
    cluster.expect("-node-0 v1", "")


def test_with_a_surge_of_100_percent_every_node_soon_has_two_pods() -> None:
    cluster = ToyCluster(world(ds("v1"), nodes=3, pods=everywhere(3)))
    cluster.edit(ds("v2", max_surge="100%", min_ready=10))
    cluster.expect("+node-2 v2, +node-1 v2, +node-0 v2", "")
    cluster.ready()
    cluster.pass_time(10)
    cluster.expect("")
    assert set(cluster.revisions().values()) == {"v1 v2"}
    cluster.pass_time(0.1)
    cluster.expect("-node-0 v1, -node-1 v1, -node-2 v1", "")


def test_paused_in_the_middle_partners_go_but_nothing_new_begins() -> None:
    cluster = ToyCluster(world(ds("v1"), pods=everywhere(5)))
    cluster.edit(ds("v2", max_surge=2))
    cluster.expect("+node-4 v2, +node-3 v2")
    cluster.edit(ds("v2", max_surge=2, paused=True))
    cluster.ready()
    cluster.expect("-node-3 v1, -node-4 v1", "")
    status = cluster.plan.status
    assert status is not None
    assert status.counts is not None
    assert (status.counts.number_available, status.counts.updated_number_scheduled) == (5, 2)


def test_a_node_whose_old_pod_is_held_by_a_hook_keeps_its_surge_slot() -> None:
    hook = LifecycleHook(labels_handler={"drain": "wait"})
    held = {"drain": "wait", LIFECYCLE_STATE_LABEL: PREPARING_DELETE}
    pods = [*everywhere(4), pod("node-4", labels=held), pod("node-4", "v2")]
    cluster = ToyCluster(world(ds("v2", max_surge=1, hook=hook), pods=pods))
    cluster.expect("")
    cluster.change(cluster.pod("node-4-v1").uid, labels=pod("node-4").labels)
    cluster.expect("-node-4 v1", "+node-3 v2", "")


def test_beside_two_old_pods_one_of_them_held_there_comes_no_third() -> None:
    """Found by chance: the one too many is to go, and cannot."""
    hook = LifecycleHook(labels_handler={"drain": "wait"})
    held = [pod("node-1", name=f"twin-{number}", labels={"drain": "wait"}) for number in range(2)]
    cluster = ToyCluster(world(ds("v2", max_surge=1, hook=hook), nodes=2, pods=[pod("node-0", "v2"), *held]))
    cluster.expect("~node-1 v1 twin-1", "")
    cluster.change(held[1].uid, labels={**pod("node-1").labels, **PREPARED})
    cluster.expect("-node-1 v1 twin-1", "+node-1 v2")


def test_beside_an_unavailable_old_pod_the_new_one_is_made_at_once() -> None:
    pods = [*everywhere(3), pod("node-3", ready=None), pod("node-4", ready=None)]
    surging = world(ds("v2", max_surge=1), pods=pods)
    check(surging, "+node-4 v2", "+node-3 v2", "+node-2 v2")


def test_a_failed_new_pod_waits_for_its_back_off_without_another() -> None:
    pods = [*everywhere(2), failed("node-1", "v2")]
    waiting = world(ds("v2", max_surge=1), nodes=2, pods=pods, not_before={"node-1": NOW + 8})
    decided = check(waiting)
    assert decided.wake_at == NOW + 8
    cluster = ToyCluster(waiting)
    cluster.pass_time(8)
    cluster.expect("-node-1 v2", "+node-1 v2", "")


def test_a_lone_failed_pod_waits_too() -> None:
    lone = world(ds("v2", max_surge=1), nodes=1, pods=[failed("node-0", "v2")], not_before={"node-0": NOW + 8})
    check(lone)


def test_no_new_pod_is_aimed_at_a_silent_node() -> None:
    nodes = ["node-0", node("node-1", UNREACHABLE), node("node-2", UNREACHABLE)]
    pods = [pod("node-0"), pod("node-1"), pod("node-2", ready=None)]
    check(world(ds("v2", max_surge=3), nodes=nodes, pods=pods), "+node-0 v2")


def test_while_surging_a_third_pod_is_one_too_many() -> None:
    pods = [pod("node-0"), pod("node-0", "v2", ready=None), pod("node-0", "v0", created=ago(5))]
    check(world(ds("v2", max_surge=1), nodes=1, pods=pods), "-node-0 v0")


def test_while_surging_two_of_one_kind_are_one_too_many() -> None:
    pods = [pod("node-0", name="a", created=ago(9)), pod("node-0", name="b", created=ago(5))]
    check(world(ds("v1", max_surge=1), nodes=1, pods=pods), "-node-0 v1 b")


def left_in_the_middle(*, new_ready: float | None = ago(9), old_ready: float | None = ago(99)) -> ToyCluster:
    """Surging was switched off while node-0 had two pods."""
    pods = [pod("node-0", created=ago(99), ready=old_ready), pod("node-0", "v2", created=ago(9), ready=new_ready)]
    return ToyCluster(world(ds("v2"), nodes=1, pods=pods))


def test_when_surging_ends_the_new_pod_that_serves_stays() -> None:
    left_in_the_middle().expect("-node-0 v1", "")


def test_when_surging_ends_the_old_pod_that_alone_serves_stays() -> None:
    left_in_the_middle(new_ready=None).expect("-node-0 v2", "-node-0 v1", "+node-0 v2", "")


def test_when_surging_ends_and_neither_serves_the_new_pod_stays() -> None:
    left_in_the_middle(new_ready=None, old_ready=None).expect("-node-0 v1", "")


def test_a_template_changed_while_surging_costs_the_pod_not_serving() -> None:
    """Both are old now: v1 does not serve any more, v2 does, though it is the younger one."""
    pods = [pod("node-0", created=ago(99), ready=None), pod("node-0", "v2", created=ago(9))]
    cluster = ToyCluster(world(ds("v3", max_surge=1), nodes=1, pods=pods))
    cluster.expect("-node-0 v1", "+node-0 v3", "")
    cluster.ready()
    cluster.expect("-node-0 v2", "")


def test_a_node_where_creates_fail_does_not_keep_its_surge_slot() -> None:
    surging = world(
        ds("v2", max_surge=1), nodes=3, pods=everywhere(3), in_backoff={BackoffKey("node", "node-2"): NOW + 8}
    )
    decided = check(surging, "+node-1 v2")
    assert decided.wake_at == NOW + 8


def test_the_burst_limits_what_goes_for_others_too() -> None:
    pods = [*everywhere(2, rev="v2"), *served("node-2", "node-3")]
    tainted(pods=pods, burst=1).expect("-node-3 v1", "-node-2 v1", "")


def test_a_pair_on_a_silent_node_is_left_alone_and_keeps_its_surge_slot() -> None:
    nodes = ["node-0", "node-1", node("node-2", UNREACHABLE)]
    pods = [*everywhere(2), pod("node-2", ready=None), pod("node-2", "v2", ready=None)]
    check(world(ds("v2", max_surge=1), nodes=nodes, pods=pods))
    check(world(ds("v2", max_unavailable=2), nodes=nodes, pods=pods), "-node-1 v1")


def test_a_new_pod_that_can_start_nowhere_frees_its_surge_slot() -> None:
    """Its node got a taint before it was bound."""
    nodes = ["node-0", node("node-1", taint("x"))]
    pods = [pod("node-0"), pod("node-1"), pending("node-1", "v2")]
    ToyCluster(world(ds("v2", max_surge=1), nodes=nodes, pods=pods)).expect(
        "-node-1 v2", "+node-0 v2, -node-1 v1", ""
    )


def test_a_pair_on_a_node_that_may_only_keep_pods_keeps_one_serving() -> None:
    nodes = ["node-0", node("node-1", taint("x"))]
    pods = [pod("node-0", "v2"), pod("node-1"), pod("node-1", "v2", ready=None)]
    cluster = ToyCluster(world(ds("v2", max_surge=1), nodes=nodes, pods=pods))
    cluster.expect("")
    cluster.ready()
    cluster.expect("-node-1 v1", "")


def test_a_pair_on_a_node_that_is_gone_uses_no_surge() -> None:
    pods = [*everywhere(1), pod("node-9"), pod("node-9", "v2", ready=None)]
    check(world(ds("v2", max_surge=1), nodes=1, pods=pods), "+node-0 v2")


def test_when_surging_ends_a_ready_old_pod_is_kept_before_an_unready_one() -> None:
    """Neither is available yet: min_ready_seconds are not over for the old one."""
    pods = [pod("node-0", ready=ago(30)), pod("node-0", "v2", ready=None)]
    check(world(ds("v2", min_ready=60), nodes=1, pods=pods), "-node-0 v2")


def test_an_old_pod_beside_a_terminating_new_one_gets_no_early_turn() -> None:
    """A lost pod comes back as it was; nothing is lost where the old one still lives."""
    there = [pod("node-0"), pod("node-0", "v2", terminating=True)]
    check(world(ds("v2", max_surge=1, selector={"track": "canary"}), nodes=1, pods=there))
