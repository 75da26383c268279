"""Which revision a lost pod or a new node gets, and nodes that the older revision excludes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.api.daemonset import Phase
from controller.api.pod import Pod
from controller.planner.conditions import Condition
from controller.planner.node_fit import Rules
from controller.planner.plan import plan
from controller.planner.rollout_state import rollout_state
from controller.planner.world import FormerPod, Predecessor, World
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
    pod,
    revision,
    served,
    taint,
    template,
    world,
)
from tests.unit.controller.planner.test_partition import CANARY, canaries


def lost(on: str, rev: str, pods: list[Pod], **fields: Any) -> World:
    """n1 … n4 whose pod on `on`, of revision `rev`, has just gone."""
    return world(
        ds("v2", max_unavailable=4, **fields),
        nodes=["n1", "n2", "n3", "n4"],
        pods=pods,
        revisions=[revision("v1"), revision("v2")],
        predecessors=before(on, rev),
    )


def test_a_pod_lost_on_a_node_that_should_stay_old_comes_back_old() -> None:
    pods = [pod("n2"), *served("n3", "n4", rev="v2")]
    cluster = ToyCluster(lost("n1", "v1", pods, partition=2))
    cluster.expect("+n1 v1", "")
    cluster.ready()
    cluster.edit(ds("v2", max_unavailable=4, partition=1))
    cluster.expect("-n2 v1", "+n2 v2", "")


def test_a_pod_lost_on_an_updated_node_comes_back_new() -> None:
    check(lost("n4", "v2", [*served("n1", "n2"), pod("n3", "v2")], partition=2), "+n4 v2")


def test_a_current_pod_lost_far_down_the_order_moves_no_other_node() -> None:
    """n1 is the canary; its place is not given to n4, neither when it is empty nor while its pod terminates."""
    rest = served("n2", "n3", "n4")
    check(lost("n1", "v2", [*rest], partition=3), "+n1 v2")
    check(
        world(
            ds("v2", max_unavailable=4, partition=3),
            pods=[pod("n1", "v2", terminating=True), *rest],
            nodes=["n1", "n2", "n3", "n4"],
        )
    )


def test_beyond_the_quota_a_lost_current_pod_comes_back_as_it_was() -> None:
    """The partition was raised after the rollout: what runs stays, also through the loss of a pod."""
    check(lost("n1", "v2", [*served("n2", "n3", "n4", rev="v2")], partition=2), "+n1 v2")


def test_a_node_added_below_the_quota_gets_the_older_revision() -> None:
    pods = [*served("n2", "n3"), pod("n4", "v2")]
    check(world(ds("v2", partition=3), nodes=["n1", "n2", "n3", "n4"], pods=pods), "+n1 v1")


def test_a_new_node_gets_the_older_revision_that_most_nodes_run() -> None:
    every = ["n1", "n2", "n3", "n4"]
    pods = [pod("n2", "v1"), pod("n3", "v2"), pod("n4", "v3")]
    check(world(ds("v3", partition=3), nodes=every, pods=pods), "+n1 v2")
    three = [revision("v1"), revision("v2"), revision("v3")]
    check(world(ds("v3", partition=4), nodes=every, pods=served("n2", "n3", "n4"), revisions=three), "+n1 v1")
    nobody = world(ds("v3", partition=4), nodes=["n1"], revisions=three)
    check(nobody, "+n1 v2")


def test_a_terminating_pod_and_one_that_ended_do_not_say_what_most_run() -> None:
    every = ["n1", "n2", "n3", "n4", "n5"]
    pods = [pod("n2", terminating=True), failed("n3"), failed("n4"), pod("n5", "v2")]
    of = world(ds("v3", partition=5), nodes=every, pods=pods, not_before={"n3": NOW + 9, "n4": NOW + 9})
    check(of, "+n1 v2")


def test_a_lost_pod_comes_back_as_it_was_and_not_as_an_abandoned_revision() -> None:
    """All run v1; v2 was pushed and held, then v3."""
    three = [revision("v1"), revision("v2"), revision("v3")]
    rest = served("n2", "n3", "n4")
    in_backoff = world(ds("v3", partition=4), nodes=["n1", *(one.node for one in rest)], pods=rest, revisions=three)
    check(in_backoff, "+n1 v1")
    check(msgspec.structs.replace(in_backoff, predecessors=before("n1", "v1")), "+n1 v1")
    check(msgspec.structs.replace(in_backoff, predecessors=before("n1", "v2")), "+n1 v2")
    check(msgspec.structs.replace(in_backoff, predecessors=before("n1", "v0")), "+n1 v1")


def test_a_pod_that_is_gone_but_for_a_finalizer_is_known() -> None:
    ghost = failed("n1", "v1", terminating=True, created=ago(9))
    pods = [ghost, *served("n2", "n3", rev="v2")]
    three = [revision("v1"), revision("v2"), revision("v3")]
    of = world(ds("v3", partition=3), nodes=["n1", "n2", "n3"], pods=pods, revisions=three)
    check(of, "+n1 v1")
    younger = {"n1": Predecessor(uid="b", pod=FormerPod(hash="v2", created=ago(5)))}
    check(msgspec.structs.replace(of, predecessors=younger), "+n1 v2")


def reverted(lost_pod: str = "", **fields: Any) -> World:
    """v1 is current again, v2 was the canary on n5; partition 4 of 5 is still there."""
    pods = [*served("n2", "n3", "n4"), pod("n5", "v2")]
    gone = before("n1", lost_pod) if lost_pod else {}
    nodes = ["n1", "n2", "n3", "n4", "n5"]
    back = [revision("v2", 2), revision("v1", 3)]
    return world(ds("v1", partition=4, **fields), nodes=nodes, pods=pods, revisions=back, predecessors=gone)


def test_after_a_revert_under_a_partition_a_lost_pod_is_not_the_canary() -> None:
    check(reverted(lost_pod="v1"), "+n1 v1")
    check(reverted(), "+n1 v1")
    check(reverted(lost_pod="v2"), "+n1 v2")


def test_as_many_of_an_older_revision_as_the_current_make_new_nodes_old() -> None:
    """No more nodes run the current revision than may: it is an ordinary rollout."""
    pods = [pod("n5", "v2"), *served("n2", "n3", "n4")]
    check(world(ds("v2", partition=4), nodes=["n1", "n2", "n3", "n4", "n5"], pods=pods), "+n1 v1")


def test_a_first_deployment_always_uses_the_current_revision() -> None:
    check(world(ds(partition=2, selector=CANARY, paused=True), nodes=2), "+node-0 v1", "+node-1 v1")


def test_with_a_selector_nodes_outside_get_the_older_revision() -> None:
    nodes = canaries("n2", of=3)
    two = [revision("v1"), revision("v2")]
    check(world(ds("v2", selector=CANARY), nodes=nodes, revisions=two), "+n1 v1", "+n2 v2", "+n3 v1")


def test_paused_an_added_node_and_a_lost_pod_get_the_older_revision() -> None:
    """While a paused rollout is incomplete the pod comes back as it was, not from the new template."""
    cluster = ToyCluster(world(ds("v1"), nodes=3, pods=everywhere(3)))
    cluster.edit(ds("v2"))
    cluster.expect("-node-2 v1", "+node-2 v2", "")
    cluster.ready()
    cluster.edit(ds("v2", paused=True))
    cluster.expect("")
    cluster.set_nodes(node("node-9"))
    cluster.lose("node-0-v1")
    cluster.expect("+node-0 v1, +node-9 v1", "")
    cluster.ready()
    cluster.edit(ds("v2"))
    cluster.expect("-node-9 v1", "+node-9 v2", "")


def test_paused_a_lost_current_pod_comes_back_current() -> None:
    check(lost("n4", "v2", [*served("n1", "n2", "n3")], paused=True), "+n4 v2")


def test_paused_after_a_full_update_new_nodes_get_the_current_revision() -> None:
    two = [revision("v1"), revision("v2")]
    done = world(ds("v2", paused=True), nodes=3, pods=served("node-0", "node-1", rev="v2"), revisions=two)
    check(done, "+node-2 v2")


def test_paused_the_last_old_pod_that_is_lost_comes_back_old() -> None:
    """Only the memory of what was there tells it from a node that was added after the rollout."""
    two = [revision("v1"), revision("v2")]
    incomplete = world(ds("v2", paused=True), nodes=1, revisions=two, predecessors=before("node-0", "v1"))
    check(incomplete, "+node-0 v1")
    complete = world(ds("v2", paused=True), nodes=1, revisions=two, predecessors=before("node-0", "v2"))
    check(complete, "+node-0 v2")


def test_paused_a_lost_pod_beside_a_terminating_one_keeps_its_revision() -> None:
    two = [revision("v1"), revision("v2")]
    pods = [pod("node-0", "v1", terminating=True), pod("node-1", "v2")]
    incomplete = world(ds("v2", paused=True), nodes=3, pods=pods, revisions=two)
    check(incomplete, "+node-2 v1")


POOL = {"pool": "a"}
IN_POOL = {"nodeSelector": POOL}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERMS = [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}]


def widened(*, first: dict[str, Any] | None = None, pods: Any = None, **fields: Any) -> World:
    """v1 ran in pool a, that is on n3 and n4; v2 runs everywhere, also on n1 and n2."""
    nodes = [node("n1"), node("n2"), node("n3", labels=POOL), node("n4", labels=POOL)]
    stored = [revision("v1", of=template("v1", **(IN_POOL if first is None else first))), revision("v2")]
    gone = fields.pop("predecessors", {})
    pods = served("n3", "n4") if pods is None else pods
    return world(ds("v2", **fields), nodes=nodes, pods=pods, revisions=stored, predecessors=gone)


def conditions(of: World) -> dict[str, Condition]:
    status = plan(of).status
    assert status is not None
    return {one.type: one for one in status.conditions}


def test_a_node_excluded_by_the_older_revision_stays_empty() -> None:
    cluster = ToyCluster(widened(partition=2))
    cluster.expect("-n4 v1", "+n4 v2", "")
    cluster.ready()
    cluster.expect("-n3 v1", "+n3 v2", "")
    cluster.ready()
    cluster.expect("")
    assert cluster.plan.status is not None
    assert cluster.plan.status.rollout.phase == Phase.HELD
    cluster.edit(ds("v2", partition=1))
    cluster.expect("+n2 v2", "")
    cluster.ready()
    cluster.edit(ds("v2"))
    cluster.expect("+n1 v2", "")


@pytest.mark.parametrize(
    "first",
    [
        IN_POOL,
        {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": TERMS}}}},
        {"nodeSelector": "a"},
        {"nodeName": "n3"},
    ],
    ids=["nodeSelector", "affinity", "not to be compiled", "nodeName"],
)
def test_whatever_excludes_it(first: dict[str, Any]) -> None:
    of = widened(first=first, partition=4)
    assert set(rollout_state(of).unplaceable) == {"n1", "n2"}
    check(of)


def test_a_taint_that_only_the_new_template_tolerates() -> None:
    tolerant: dict[str, Any] = {"tolerations": [{"key": "x", "operator": "Exists"}]}
    stored = [revision("v1"), revision("v2", of=template("v2", **tolerant))]
    nodes = [node("n1", taint("x")), node("n2")]
    of = world(ds("v2", partition=2, **tolerant), nodes=nodes, pods=served("n2"), revisions=stored)
    check(of)


@pytest.mark.parametrize("held", [{"paused": True}, {"selector": POOL}, {"partition": 2}])
def test_whatever_keeps_the_current_one_from_it(held: dict[str, Any]) -> None:
    of = widened(pods=[pod("n3"), pod("n4", "v2")], **held)
    assert set(rollout_state(of).unplaceable) == {"n1", "n2"}
    assert rollout_state(of).unavailable == 0


def test_it_uses_no_maxunavailable_and_one_that_only_lost_its_pod_does() -> None:
    pods = [pod("n3"), pod("n4")]
    assert rollout_state(widened(pods=pods, partition=4)).unavailable == 0
    assert rollout_state(widened(pods=pods, partition=4, first={})).unavailable == 2
    assert rollout_state(widened(pods=pods[1:], partition=4)).unavailable == 1


def test_a_lost_pod_does_not_come_back_where_its_revision_does_not_run() -> None:
    check(widened(partition=4, predecessors=before("n1", "v1")))


def test_a_lost_pod_comes_back_where_its_revision_runs() -> None:
    check(widened(partition=4, predecessors=before("n1", "v2")), "+n1 v2")


def test_with_partitioned_scaling_a_waiting_node_is_not_a_lasting_gap() -> None:
    assert rollout_state(widened(partition=4, partitioned_scaling=True)).unplaceable == {}
    chosen = widened(partition=2, partitioned_scaling=True, selector=POOL)
    assert set(rollout_state(chosen).unplaceable) == {"n1", "n2"}


def test_on_delete_leaves_nobody_empty() -> None:
    check(widened(on_delete=True), "+n1 v2", "+n2 v2")


def test_while_it_is_held_conditions_say_how_many_and_why() -> None:
    of = widened(partition=2, pods=served("n3", "n4", rev="v2"))
    words = "2 nodes stay empty: revision v1 does not run there"
    told = conditions(of)
    assert told["Ready"].reason == Phase.HELD
    assert told["Ready"].message.endswith(f"; {words}")
    assert told["Progressing"].message.endswith(f"; {words}")
    assert words in conditions(widened(partition=2))["Ready"].message, "while it goes on"
    assert words in conditions(widened(paused=True))["Ready"].message


def test_one_node_and_several_revisions_are_told_apart() -> None:
    one = widened(partition=1, pods=served("n2", "n3", "n4", rev="v2"))
    assert conditions(one)["Ready"].message.endswith("; 1 node stays empty: revision v1 does not run there")
    stored = [revision(rev, of=template(rev, **IN_POOL)) for rev in ("v1", "v2")] + [revision("v3")]
    gone = {**before("n1", "v1"), **before("n2", "v2")}
    two = world(ds("v3", partition=2), nodes=["n1", "n2"], revisions=stored, predecessors=gone)
    assert conditions(two)["Ready"].message.endswith("2 nodes stay empty: revisions v1, v2 do not run there")


def test_paused_with_nobody_but_empty_nodes_left_it_is_paused() -> None:
    stored = [revision("v1", of=template("v1", **IN_POOL)), revision("v2")]
    of = world(ds("v2", paused=True), nodes=["n1"], revisions=stored, predecessors=before("n1", "v1"))
    decided = plan(of)
    assert decided.status is not None
    assert decided.status.rollout.phase == Phase.PAUSED
    assert decided.summary is not None
    assert decided.summary.blocks["Paused"]
    assert decided.summary.updating == 0


def test_a_pass_in_which_no_node_is_empty_asks_no_placement() -> None:
    full = widened(partition=2, pods=[pod("n1", "v2"), pod("n2", "v2"), *served("n3", "n4")])
    assert all(isinstance(rules, Rules) for rules in full.placements.values())
    rollout = rollout_state(full)
    assert rollout.unplaceable == {}
    assert "usual" not in vars(rollout.fallback)
