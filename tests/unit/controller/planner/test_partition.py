"""Which nodes may hold the new revision: partition, selector, pause.

Ids in test names are those of scenarios (d6) and of the upstream catalogue (u40); decisions of the specification are
called decision_d9, defects of the reference defect_b7.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.api.node import Node
from controller.api.number import IntOrPercent
from controller.api.pod import Pod
from controller.planner.board import lay_out
from controller.planner.world import FormerPod, Predecessor, World
from tests.beds.picture import check
from tests.beds.toy_cluster import ToyCluster
from tests.beds.worlds import NOW, ago, before, ds, everywhere, failed, node, pod, revision, served, world

CANARY = {"track": "canary"}


def canaries(*names: str, of: int) -> list[Node]:
    """Nodes n1 … n`of`; those named carry the canary label."""
    every = [f"n{number}" for number in range(1, of + 1)]
    return [node(name, labels=CANARY if name in names else None) for name in every]


def allowed(of: World) -> list[str]:
    return [slot.node for slot in lay_out(of).may_hold_current]


def test_without_partition_updated_nodes_come_first_then_the_rest_descending() -> None:
    pods = [pod("n1"), pod("n2", "v2"), pod("n3")]
    assert allowed(world(ds("v2"), nodes=["n1", "n2", "n3"], pods=pods)) == ["n2", "n3", "n1"]


def test_updated_nodes_fill_the_quota_first() -> None:
    pods = [pod("n1", "v2"), pod("n2"), pod("n3")]
    assert allowed(world(ds("v2", partition=1), nodes=["n1", "n2", "n3"], pods=pods)) == ["n1", "n3"]


def test_selected_nodes_come_after_the_updated_ones() -> None:
    pods = [pod("n1"), pod("n2", "v2"), pod("n3"), pod("n4")]
    canary = world(ds("v2", partition=1, selector=CANARY), nodes=canaries("n3", of=4), pods=pods)
    assert allowed(canary) == ["n2", "n3"]


def test_a_node_whose_pod_terminates_is_selected_like_any_other() -> None:
    pods = [pod("n1"), pod("n2", "v2"), pod("n3", dying=True), pod("n4")]
    canary = world(ds("v2", selector=CANARY), nodes=canaries("n1", "n3", of=4), pods=pods)
    assert allowed(canary) == ["n2", "n3", "n1"]


def test_the_partition_counts_over_all_nodes_not_over_the_selected_ones() -> None:
    """6 nodes, 2 updated and not selected, partition 3, the 4 others selected."""
    pods = [*served("n1", "n2", rev="v2"), *served("n3", "n4", "n5", "n6")]
    chosen = canaries("n3", "n4", "n5", "n6", of=6)
    assert allowed(world(ds("v2", partition=3, selector=CANARY), nodes=chosen, pods=pods)) == ["n2", "n1", "n6"]


def test_walking_the_partition_down() -> None:
    cluster = ToyCluster(world(ds("v1"), nodes=10, pods=everywhere(10)))

    def partition(value: IntOrPercent) -> None:
        cluster.edit(ds("v2", max_unavailable=2, partition=value))

    partition(10)
    cluster.expect("")
    partition(9)
    cluster.expect("-node-9 v1", "+node-9 v2", "")
    cluster.ready()
    cluster.expect("")
    partition(5)
    cluster.expect("-node-8 v1, -node-7 v1", "+node-7 v2, +node-8 v2", "")
    cluster.ready()
    cluster.expect("-node-6 v1, -node-5 v1", "+node-5 v2, +node-6 v2", "")
    cluster.ready()
    cluster.expect("")
    partition(100)
    cluster.expect("")
    partition(0)
    cluster.expect("-node-4 v1, -node-3 v1", "+node-3 v2, +node-4 v2")
    cluster.ready()
    cluster.expect("-node-2 v1, -node-1 v1", "+node-1 v2, +node-2 v2")
    cluster.ready()
    cluster.expect("-node-0 v1", "+node-0 v2", "")


@pytest.mark.parametrize(
    ("nodes", "partition", "kept"), [(10, "35%", 3), (5, "30%", 1), (5, "100%", 5), (3, "0%", 0)]
)
def test_a_percentage_keeps_its_floor(nodes: int, partition: str, kept: int) -> None:
    cluster = ToyCluster(world(ds("v1"), nodes=nodes, pods=everywhere(nodes)))
    cluster.edit(ds("v2", max_unavailable="100%", partition=partition))
    cluster.settle()
    assert [name for name, rev in cluster.revisions().items() if rev == "v1"] == [f"node-{n}" for n in range(kept)]


def test_raising_the_partition_or_taking_the_label_away_rolls_nothing_back() -> None:
    pods = [pod("n1"), pod("n2", "v2")]
    check(world(ds("v2", partition=2), nodes=["n1", "n2"], pods=pods))
    check(world(ds("v2", selector=CANARY), nodes=["n1", "n2"], pods=pods))


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


def test_a_current_pod_lost_far_down_the_order_comes_back_and_moves_no_other_node() -> None:
    """n1 is the canary; its place is not given to n4, neither when it is empty nor while its pod terminates."""
    rest = served("n2", "n3", "n4")
    check(lost("n1", "v2", [*rest], partition=3), "+n1 v2")
    check(
        world(
            ds("v2", max_unavailable=4, partition=3),
            pods=[pod("n1", "v2", dying=True), *rest],
            nodes=["n1", "n2", "n3", "n4"],
        )
    )


def test_beyond_the_quota_a_lost_current_pod_comes_back_as_it_was() -> None:
    """The partition was raised after the rollout: what runs stays, also through the loss of a pod."""
    check(lost("n1", "v2", [*served("n2", "n3", "n4", rev="v2")], partition=2), "+n1 v2")


def test_a_node_added_below_the_quota_gets_the_older_revision() -> None:
    pods = [*served("n2", "n3"), pod("n4", "v2")]
    check(world(ds("v2", partition=3), nodes=["n1", "n2", "n3", "n4"], pods=pods), "+n1 v1")


def test_a_new_node_gets_the_older_revision_that_most_run_and_of_equals_the_newest() -> None:
    every = ["n1", "n2", "n3", "n4"]
    pods = [pod("n2", "v1"), pod("n3", "v2"), pod("n4", "v3")]
    check(world(ds("v3", partition=3), nodes=every, pods=pods), "+n1 v2")
    three = [revision("v1"), revision("v2"), revision("v3")]
    check(world(ds("v3", partition=4), nodes=every, pods=served("n2", "n3", "n4"), revisions=three), "+n1 v1")
    nobody = world(ds("v3", partition=4), nodes=["n1"], revisions=three)
    check(nobody, "+n1 v2")


def test_a_dying_pod_and_one_that_ended_do_not_say_what_most_run() -> None:
    every = ["n1", "n2", "n3", "n4", "n5"]
    pods = [pod("n2", dying=True), failed("n3"), failed("n4"), pod("n5", "v2")]
    of = world(ds("v3", partition=5), nodes=every, pods=pods, not_before={"n3": NOW + 9, "n4": NOW + 9})
    check(of, "+n1 v2")


def test_a_lost_pod_comes_back_as_it_was_and_not_as_an_abandoned_revision() -> None:
    """All run v1; v2 was pushed and held, then v3."""
    three = [revision("v1"), revision("v2"), revision("v3")]
    rest = served("n2", "n3", "n4")
    held_back = world(ds("v3", partition=4), nodes=["n1", *(one.node for one in rest)], pods=rest, revisions=three)
    check(held_back, "+n1 v1")
    check(msgspec.structs.replace(held_back, predecessors=before("n1", "v1")), "+n1 v1")
    check(msgspec.structs.replace(held_back, predecessors=before("n1", "v2")), "+n1 v2")
    check(msgspec.structs.replace(held_back, predecessors=before("n1", "v0")), "+n1 v1")


def test_a_pod_that_is_gone_but_for_a_finalizer_is_known() -> None:
    ghost = failed("n1", "v1", dying=True, created=ago(9))
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


def test_of_an_older_revision_as_many_as_may_hold_the_current_one_new_nodes_are_old() -> None:
    """No more nodes run the current revision than may: it is an ordinary rollout."""
    pods = [pod("n5", "v2"), *served("n2", "n3", "n4")]
    check(world(ds("v2", partition=4), nodes=["n1", "n2", "n3", "n4", "n5"], pods=pods), "+n1 v1")


def test_a_first_deployment_uses_the_current_revision_whatever_partition_selector_and_pause_say() -> None:
    check(world(ds(partition=2, selector=CANARY, paused=True), nodes=2), "+node-0 v1", "+node-1 v1")


def test_with_a_selector_nodes_outside_get_the_older_revision() -> None:
    nodes = canaries("n2", of=3)
    two = [revision("v1"), revision("v2")]
    check(world(ds("v2", selector=CANARY), nodes=nodes, revisions=two), "+n1 v1", "+n2 v2", "+n3 v1")


def test_on_delete_knows_no_quota() -> None:
    two = [revision("v1"), revision("v2")]
    check(world(ds("v2", on_delete=True), nodes=1, revisions=two), "+node-0 v2")


def test_going_back_under_a_partition_moves_nobody_until_it_is_lowered() -> None:
    """What is left of the abandoned revision counts as the old one then, and the partition keeps that many."""
    pods = [*served("n1", "n2", "n3"), *served("n4", "n5", rev="v2")]
    nodes = ["n1", "n2", "n3", "n4", "n5"]
    back = [revision("v1", 3), revision("v2", 2)]
    check(world(ds("v1", partition=3), nodes=nodes, pods=pods, revisions=back))
    check(world(ds("v1", partition=0, max_unavailable=2), nodes=nodes, pods=pods, revisions=back), "-n5 v2", "-n4 v2")


def test_while_paused_no_pod_is_updated_and_status_still_says_where_it_stands() -> None:
    decided = check(world(ds("v2", paused=True), pods=everywhere(5, ready=None)))
    assert decided.status is not None
    assert decided.status.revision_hash == "v2"
    [progressing] = [one for one in decided.status.conditions if one.type == "Progressing"]
    assert progressing.reason == "Paused"


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


def test_paused_after_everything_was_updated_new_nodes_get_the_current_revision() -> None:
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


def test_paused_an_updated_node_whose_pod_is_lost_while_another_terminates_is_not_decided_by_the_pause() -> None:
    two = [revision("v1"), revision("v2")]
    pods = [pod("node-0", "v1", dying=True), pod("node-1", "v2")]
    incomplete = world(ds("v2", paused=True), nodes=3, pods=pods, revisions=two)
    check(incomplete, "+node-2 v1")


def test_paused_a_node_that_leaves_still_loses_its_pod() -> None:
    blue = {"color": "blue"}
    nodes = [node("node-0", labels=blue), node("node-1")]
    check(world(ds("v2", paused=True, nodeSelector=blue), nodes=nodes, pods=everywhere(2)), "-node-1 v1")


def test_an_unavailable_pod_outside_the_canaries_uses_their_budget() -> None:
    nodes = canaries("n3", "n4", of=4)
    pods = [pod("n1", ready=None), *served("n2", "n3", "n4")]
    cluster = ToyCluster(world(ds("v2", selector=CANARY), nodes=nodes, pods=pods))
    cluster.expect("")
    cluster.ready("n1")
    cluster.expect("-n4 v1", "+n4 v2", "")


def test_invariant_4_only_canaries_are_updated() -> None:
    nodes = canaries("n2", of=3)
    cluster = ToyCluster(
        world(ds("v2", selector=CANARY, max_unavailable=3), nodes=nodes, pods=served("n1", "n2", "n3"))
    )
    cluster.expect("-n2 v1", "+n2 v2", "")
    cluster.ready()
    cluster.expect("")


def test_partition_and_selector_hold_adopted_pods_of_which_no_revision_is_stored() -> None:
    """Pods taken over without their history are old ones like any other."""
    strangers = [pod(name, "") for name in ("n1", "n2", "n3")]
    only = [revision("v2")]
    nodes = canaries("n2", of=3)
    check(world(ds("v2", partition=3), nodes=nodes, pods=strangers, revisions=only))
    check(world(ds("v2", selector=CANARY), nodes=nodes, pods=strangers, revisions=only), "-n2 ")
