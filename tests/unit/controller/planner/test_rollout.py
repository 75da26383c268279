"""The rolling update within maxUnavailable.

An old pod that is unavailable is replaced at once, outside the limit, but its node uses up budget that available pods
then do not get.
"""

from __future__ import annotations

import pytest

from controller.api.names import TEMPLATE_REFUSED
from controller.planner.plan import plan
from controller.planner.world import BackoffKey
from tests.beds.toy_cluster import ToyCluster
from tests.beds.worlds import (
    NOW,
    ago,
    check,
    ds,
    everywhere,
    failed,
    node,
    pending,
    pod,
    refusing,
    revision,
    served,
    taint,
    world,
)


def rolling(count: int, ready: float | None = ago(3600)) -> ToyCluster:
    """A quiet cluster on v1."""
    return ToyCluster(world(ds("v1"), nodes=count, pods=everywhere(count, ready=ready)))


def test_waves_by_descending_name_each_waiting_for_the_one_before() -> None:
    cluster = rolling(5)
    cluster.edit(ds("v2", max_unavailable=2))
    cluster.expect("-node-4 v1, -node-3 v1", "+node-3 v2, +node-4 v2", "")
    cluster.ready()
    cluster.expect("-node-2 v1, -node-1 v1", "+node-1 v2, +node-2 v2", "")
    cluster.ready()
    cluster.expect("-node-0 v1", "+node-0 v2", "")
    cluster.ready()
    cluster.expect("")


def test_one_pod_that_gets_ready_lets_one_other_go() -> None:
    cluster = rolling(5)
    cluster.edit(ds("v2", max_unavailable=2))
    cluster.settle()
    cluster.ready("node-3")
    cluster.expect("-node-2 v1", "+node-2 v2", "")


def test_names_are_ordered_as_text() -> None:
    names = ["node-9", "node-10", "node-1"]
    check(world(ds("v2"), nodes=names, pods=served(*names)), "-node-9 v1")


def test_new_pods_that_never_get_ready_stop_the_rollout() -> None:
    cluster = rolling(5)
    cluster.edit(ds("v2", max_unavailable=3))
    cluster.expect("-node-4 v1, -node-3 v1, -node-2 v1", "+node-2 v2, +node-3 v2, +node-4 v2", "", "")
    assert (cluster.on("node-0"), cluster.on("node-1")) == (["v1"], ["v1"])


def test_a_change_of_the_strategy_alone_touches_nothing() -> None:
    cluster = rolling(5)
    cluster.edit(ds("v1", max_unavailable=3, min_ready=5, partition=2))
    cluster.expect("")
    assert [one.name for one in cluster.world.revisions] == ["demo-v1"]


def test_unavailable_old_pods_are_replaced_at_once_whatever_the_limit() -> None:
    """The same numbers as the native controller."""
    cluster = rolling(5, ready=None)
    cluster.edit(ds("v2", max_unavailable=3))
    cluster.expect(
        "-node-4 v1, -node-3 v1, -node-2 v1, -node-1 v1, -node-0 v1",
        "+node-0 v2, +node-1 v2, +node-2 v2, +node-3 v2, +node-4 v2",
        "",
    )


def test_unavailable_old_pods_use_budget_of_available_ones() -> None:
    """Strict where it matters: with 2 of 5 broken and maxUnavailable 3 only one healthy pod goes with them."""
    pods = [*served("node-0", "node-1", ready=None), *served("node-2", "node-3", "node-4")]
    check(world(ds("v2", max_unavailable=3), pods=pods), "-node-1 v1", "-node-0 v1", "-node-4 v1")
    check(world(ds("v2", max_unavailable=2), pods=pods), "-node-1 v1", "-node-0 v1")


def test_bad_edit_upon_bad_edit_breaks_one_node_and_no_more() -> None:
    """The node that is broken already is the only one that is touched again."""
    cluster = rolling(3)
    for rev, broken in (("v2", "v1"), ("v3", "v2"), ("v4", "v3")):
        cluster.edit(ds(rev))
        cluster.expect(f"-node-2 {broken}", f"+node-2 {rev}", "", "")
        cluster.change_where(lambda one: not one.bound, bound=True, phase="Running")
    assert (cluster.on("node-0"), cluster.on("node-1")) == (["v1"], ["v1"])


def test_of_five_pods_the_two_broken_ones_are_replaced_first() -> None:
    pods = [*served("node-0", "node-1", "node-2"), *served("node-3", "node-4", rev="v2", ready=None)]
    cluster = ToyCluster(world(ds("v3", max_unavailable=2), pods=pods))
    cluster.expect("-node-4 v2, -node-3 v2", "+node-3 v3, +node-4 v3", "")


def test_quick_edits_within_min_ready_seconds_keep_the_others_serving() -> None:
    cluster = ToyCluster(world(ds("v1", min_ready=60), pods=everywhere(5)))
    for rev, broken in (("v2", "v1"), ("v3", "v2"), ("v4", "v3"), ("v5", "v4")):
        cluster.edit(ds(rev, min_ready=60))
        cluster.expect(f"-node-4 {broken}", f"+node-4 {rev}", "")
        cluster.ready()
        cluster.expect("")
        cluster.pass_time(10)


def test_pods_that_are_ready_but_not_yet_available_go_within_the_limit() -> None:
    """They serve. The native controller would replace all of them at once."""
    cluster = ToyCluster(world(ds("v2", min_ready=60), nodes=3, pods=everywhere(3, ready=ago(5))))
    cluster.expect("-node-2 v1", "+node-2 v2", "")
    cluster.ready()
    cluster.expect("")
    cluster.pass_time(61)
    cluster.expect("-node-1 v1", "+node-1 v2", "")


def test_of_pods_that_serve_those_not_yet_available_go_first() -> None:
    young = pod("node-0", ready=ago(5))
    updating = ds("v2", min_ready=60, max_unavailable=2)
    check(world(updating, nodes=3, pods=[young, pod("node-1"), pod("node-2")]), "-node-0 v1", "-node-2 v1")
    down = pod("node-1", ready=None)
    check(world(updating, nodes=3, pods=[young, down, pod("node-2")]), "-node-1 v1", "-node-0 v1")


def test_after_a_kubelet_restart_available_pods_wait_for_new_ones() -> None:
    pods = [pod("node-0"), pod("node-1"), pod("node-2", "v2", ready=ago(5))]
    updating = world(ds("v2", min_ready=60), nodes=3, pods=pods)
    decided = check(updating)
    assert decided.wake_at == pytest.approx(ago(5) + 60 + 0.05)
    cluster = ToyCluster(updating)
    cluster.pass_time(55)
    cluster.expect("")  # exactly 60 s are not *more than* 60 s
    cluster.pass_time(0.05)
    cluster.expect("-node-1 v1")


def test_nodes_that_leave_with_the_edit_neither_use_budget_nor_are_updated() -> None:
    """The delayed variant: placement acts first and ends its pass."""
    keep = {"pool": "a"}
    nodes = [node("node-0"), node("node-1"), *(node(f"node-{number}", labels=keep) for number in (2, 3, 4))]
    cluster = ToyCluster(world(ds("v1"), nodes=nodes, pods=everywhere(5)))
    cluster.edit(ds("v2", nodeSelector=keep))
    cluster.expect("-node-0 v1, -node-1 v1", "-node-4 v1", "+node-4 v2", "")
    cluster.ready()
    cluster.expect("-node-3 v1", "+node-3 v2", "")
    cluster.ready()
    cluster.expect("-node-2 v1", "+node-2 v2", "")
    assert cluster.revisions() == {"node-0": "", "node-1": "", "node-2": "v2", "node-3": "v2", "node-4": "v2"}


def test_pods_stuck_terminating_on_nodes_that_left_hold_nobody_up() -> None:
    keep = {"pool": "a"}
    nodes = [node("node-0"), *(node(f"node-{number}", labels=keep) for number in (1, 2))]
    cluster = ToyCluster(world(ds("v1"), nodes=nodes, pods=everywhere(3)), dead=["node-0"])
    cluster.edit(ds("v2", nodeSelector=keep))
    cluster.expect("-node-0 v1", "-node-2 v1", "+node-2 v2", "")
    cluster.ready()
    cluster.expect("-node-1 v1", "+node-1 v2", "")
    assert cluster.on("node-0") == ["v1†"]


def test_a_pod_on_a_node_that_may_only_keep_it_is_not_updated() -> None:
    """An untolerated NoSchedule taint: deleted for the update it would never come back."""
    nodes = ["node-0", node("node-1", taint("x"))]
    cluster = ToyCluster(world(ds("v2"), nodes=nodes, pods=everywhere(2)))
    cluster.expect("-node-0 v1", "+node-0 v2", "")
    assert cluster.on("node-1") == ["v1"]


def test_a_node_that_cannot_have_its_pod_does_not_block_the_others() -> None:
    """Its failed pod waits for its back-off; with room in the budget the rollout goes on elsewhere."""
    pods = [*everywhere(4), failed("node-4", "v2")]
    waiting = world(ds("v2", max_unavailable=2), pods=pods, not_before={"node-4": NOW + 60})
    check(waiting, "-node-3 v1")


def test_update_deletes_are_limited_by_the_burst() -> None:
    check(world(ds("v2", max_unavailable=4, burst=2), pods=everywhere(5)), "-node-4 v1", "-node-3 v1")


def test_on_delete_never_replaces_a_pod_and_a_lost_one_comes_back_new() -> None:
    cluster = ToyCluster(world(ds("v2", on_delete=True), nodes=3, pods=everywhere(3, ready=None)))
    cluster.expect("")
    cluster.lose("node-1-v1")
    cluster.expect("+node-1 v2", "")


def test_a_dry_run_tries_the_new_template_before_any_old_pod_goes() -> None:
    cluster = ToyCluster(world(ds("v2"), nodes=2, pods=everywhere(2), verdicts={}))
    cluster.expect("probe v2 on node-1")
    assert cluster.plan.again, "a dry run stores nothing, so no event would bring the next pass"
    cluster.expect("-node-1 v1", "+node-1 v2")


def test_while_the_server_refuses_the_template_old_pods_stay() -> None:
    refused = world(
        ds("v2"),
        nodes=2,
        pods=everywhere(2),
        verdicts=refusing("v2", "hostPort: too large"),
        ask_at=NOW + 60,
    )
    decided = check(refused)
    assert [(note.reason, note.warning) for note in decided.notes] == [(TEMPLATE_REFUSED, True)]
    assert "hostPort: too large" in decided.notes[0].message
    assert decided.wake_at == NOW + 60, "a webhook may have changed its mind"
    assert decided.status is not None
    assert [(one.type, one.status) for one in decided.status.conditions if one.reason == TEMPLATE_REFUSED] == [
        ("Progressing", "False"),
        ("Degraded", "True"),
        ("Stalled", "True"),
    ]


def test_a_refused_template_is_asked_again_in_time() -> None:
    due = world(
        ds("v2"),
        nodes=2,
        pods=everywhere(2),
        verdicts=refusing("v2", "hostPort: too large"),
        ask_at=NOW,
    )
    decided = check(due, "probe v2 on node-1")
    assert decided.status is not None
    reasons = {one.type: one.reason for one in decided.status.conditions}
    assert reasons["Degraded"] == TEMPLATE_REFUSED, "a question is no answer: the condition must not flap"


def test_a_node_where_creates_fail_does_not_stop_the_rollout() -> None:
    pods = everywhere(4)
    stuck = world(ds("v2", max_unavailable=3), nodes=5, pods=pods, in_backoff={BackoffKey("node", "node-4"): NOW + 8})
    decided = check(stuck, "-node-3 v1", "-node-2 v1")
    assert decided.wake_at == NOW + 8, "node-4 is tried again then"
    check(world(ds("v2", max_unavailable=3), nodes=5, pods=pods), "+node-4 v2")


def test_a_pod_that_cannot_be_deleted_does_not_stop_the_others() -> None:
    stray = pod("node-0", rev="v1", created=ago(5), name="stray")
    crowded = world(
        ds("v2"), nodes=3, pods=(*everywhere(3), stray), in_backoff={BackoffKey("object", stray.uid): NOW + 8}
    )
    check(crowded, "-node-2 v1")


def test_nobody_asks_the_server_while_nothing_may_move() -> None:
    stuck = [*everywhere(1), pending("node-1", "v2")]
    assert plan(world(ds("v2"), nodes=2, pods=stuck, verdicts={})).actions == ()


def test_pods_made_through_another_version_of_the_api_roll_like_any_other() -> None:
    """Projection keeps them (`api/test_pod.py`); the hash of an unknown controller is simply old."""
    pods = [pod("node-0", "8f7d6c5b4"), pod("node-1", "8f7d6c5b4")]
    stored = [revision("8f7d6c5b4", 1, of=world().daemonset.spec.template), revision("v2")]
    updating = world(ds("v2"), nodes=2, pods=pods, revisions=stored)
    cluster = ToyCluster(updating)
    cluster.expect("-node-1 v1", "+node-1 v2", "")


def test_an_old_pod_that_cannot_be_deleted_leaves_its_budget_to_the_next() -> None:
    pods = everywhere(3)
    stuck = world(ds("v2"), nodes=3, pods=pods, in_backoff={BackoffKey("object", pods[2].uid): NOW + 8})
    decided = check(stuck, "-node-1 v1")
    assert decided.wake_at == NOW + 8
