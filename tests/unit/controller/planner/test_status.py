"""What the status says."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.daemonset import Columns, Counts, LifecycleHook
from controller.api.names import LIFECYCLE_STATE_LABEL, PREPARING_DELETE
from controller.api.objects import rfc3339
from controller.planner.plan import Plan, plan
from controller.planner.status import Status, columns_of
from controller.planner.world import BackoffKey, World
from tests.beds.worlds import (
    NOW,
    ago,
    ds,
    everywhere,
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

H6_NODES = ["n1", "n2", "n3", "n4", node("n5", taint("x", "NoExecute"))]
H6_PODS = [pod("n1", "v2", ready=ago(10)), pod("n2"), pod("n3", "v2", ready=None), pod("n5")]


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
    assert counts(world(ds("v2"), nodes=H6_NODES, pods=H6_PODS)) == Counts(
        desired_number_scheduled=4,
        current_number_scheduled=3,
        number_misscheduled=1,
        number_ready=2,
        updated_number_scheduled=2,
        number_available=2,
        number_unavailable=2,
    )


def test_with_min_ready_seconds_the_plan_wakes_up_for_availability() -> None:
    slow = world(ds("v2", min_ready=30), nodes=H6_NODES, pods=H6_PODS)
    assert counts(slow).number_available == 1
    assert counts(slow).number_ready == 2
    assert plan(slow).wake_at == pytest.approx(NOW + 20.05)


def test_while_surging_the_older_pod_stands_for_the_node() -> None:
    pods = [pod("node-0", created=ago(99), ready=None), pod("node-0", "v2", created=ago(9))]
    surging = counts(world(ds("v2", max_surge=1), nodes=1, pods=pods))
    assert (surging.updated_number_scheduled, surging.number_ready, surging.number_available) == (0, 0, 0)


def test_a_terminating_pod_still_counts_as_scheduled() -> None:
    leaving = counts(world(nodes=1, pods=[pod("node-0", terminating=True)]))
    assert (leaving.current_number_scheduled, leaving.number_ready, leaving.number_available) == (1, 1, 0)


def test_a_pod_that_ended_and_is_terminating_counts_for_nothing() -> None:
    assert counts(world(nodes=1, pods=[failed("node-0", terminating=True)])).current_number_scheduled == 0


def test_the_ready_condition_of_a_pod_that_ended_is_not_believed() -> None:
    ended = counts(world(nodes=1, pods=[pod("node-0", phase="Succeeded")]))
    assert (ended.current_number_scheduled, ended.number_ready, ended.number_available) == (1, 0, 0)


def test_a_pod_that_a_hook_holds_is_not_available() -> None:
    held = pod("node-0", labels={LIFECYCLE_STATE_LABEL: PREPARING_DELETE})
    counted = counts(world(nodes=1, pods=[held]))
    assert (counted.number_ready, counted.number_available) == (1, 0)


def test_a_pod_that_may_stay_but_should_not_run_is_misscheduled() -> None:
    staying = counts(world(nodes=[node("node-0", taint("x"))], pods=[pod("node-0")]))
    assert (staying.desired_number_scheduled, staying.number_misscheduled) == (0, 1)


def test_pods_of_vanished_nodes_count_for_nothing() -> None:
    assert counts(world(nodes=0, pods=[pod("node-9")])) == Counts()


def test_observed_generation_moves_only_when_nothing_is_left_to_do() -> None:
    assert status(world(ds(generation=7))).observed_generation is None, "pods are missing"
    assert status(world(ds(generation=7), pods=everywhere(5))).observed_generation == 7
    assert status(world(ds("v2", generation=7), pods=everywhere(5))).observed_generation == 7, "the update may go on"
    assert status(world(ds(generation=7), pods=everywhere(5), fresh=False)).observed_generation is None
    assert status(world(ds(generation=7), revisions=[])).observed_generation is None


def test_while_writes_fail_the_generation_is_observed_and_trouble_told() -> None:
    failing = world(ds(generation=7), write_failure="quota exceeded")
    assert status(failing).observed_generation == 7
    assert condition(failing, "Degraded") == ("True", "WritesFail", "quota exceeded")


def test_trouble_is_told_during_the_back_off_of_what_failed() -> None:
    waiting = world(
        pods=served("node-0", "node-1"),
        in_backoff={BackoffKey("node", f"node-{n}"): ago(-60) for n in (2, 3, 4)},
        write_failure="no",
    )
    decided = plan(waiting)
    assert (decided.actions, decided.withheld, decided.all_written) == ((), True, False)
    assert condition(waiting, "Degraded") == ("True", "WritesFail", "no")


def test_what_is_done_all_the_same_is_not_withheld() -> None:
    """Nothing is left to be done at node-9."""
    others = world(
        pods=served("node-0", "node-1"), in_backoff={BackoffKey("node", "node-9"): ago(-60)}, write_failure="no"
    )
    decided = plan(others)
    assert (len(decided.actions), decided.withheld) == (3, False)


def test_the_first_place_whose_back_off_ends_does_not_wait_for_the_last() -> None:
    in_backoff = {BackoffKey("node", "node-3"): ago(-8), BackoffKey("node", "node-4"): ago(-300)}
    assert plan(world(pods=everywhere(3), in_backoff=in_backoff)).wake_at == ago(-8)


def test_nothing_is_done_or_said_for_a_daemonset_on_its_way_out() -> None:
    assert plan(world(ds(terminating=True))) == Plan()


def test_trouble_is_over_where_nothing_is_left_to_be_written() -> None:
    well = world(pods=everywhere(5), in_backoff={BackoffKey("node", "gone"): ago(-60)}, write_failure="no")
    assert plan(well).all_written
    assert condition(well, "Degraded") == ("False", "AsExpected", "")


def test_a_stale_view_ends_no_trouble() -> None:
    stale = world(pods=everywhere(5), fresh=False, write_failure="no")
    assert not plan(stale).all_written
    assert condition(stale, "Degraded") == ("True", "WritesFail", "no")


def test_an_unreadable_pod_is_told_although_nothing_is_left_to_write() -> None:
    assert condition(world(pods=everywhere(5), unreadable="what?"), "Degraded") == ("True", "WritesFail", "what?")


def test_a_refused_template_is_told() -> None:
    refused = world(ds("v2"), pods=everywhere(5), verdicts=refusing("v2", "no such field"))
    assert condition(refused, "Degraded") == ("True", "TemplateRefused", "no such field")


def test_all_well() -> None:
    well = world(pods=everywhere(5))
    assert condition(well, "Progressing") == ("True", "RolloutComplete", "5 of 5 nodes have a pod of revision v1")
    assert condition(well, "Available") == ("True", "AllAvailable", "5 of 5 nodes are served")
    assert condition(well, "Degraded") == ("False", "AsExpected", "")
    assert status(well).settled


@pytest.mark.parametrize(
    ("fields", "progressing"),
    [
        ({}, ("True", "Updating")),
        ({"on_delete": True}, ("True", "OnDelete")),
        ({"paused": True}, ("Unknown", "Paused")),
        ({"partition": 5}, ("True", "PartitionReached")),
        ({"partition": 3}, ("True", "Updating")),
    ],
)
def test_a_rollout_says_what_it_waits_for(fields: dict[str, Any], progressing: tuple[str, str]) -> None:
    updating = world(ds("v2", **fields), pods=everywhere(5))
    assert condition(updating, "Progressing")[:2] == progressing
    assert not status(updating).settled


def test_unavailable_nodes_are_counted() -> None:
    assert condition(world(pods=everywhere(5, ready=None)), "Available") == (
        "False",
        "PodsUnavailable",
        "5 of 5 nodes have no available pod",
    )


def test_the_update_revision_is_the_hash_that_pods_carry() -> None:
    assert status(world(ds("v2"), pods=everywhere(5))).revision_hash == "v2"


def test_columns() -> None:
    containers = [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:2"}, "nonsense"]
    full = world(ds(nodeSelector={"os": "linux", "arch": "arm64"}, containers=containers), nodes=0, revisions=[])
    assert status(full).columns == Columns(
        node_selector="arch=arm64,os=linux", containers="a,b,", images="a:1,b:2,", selector="app=demo"
    )
    assert status(world(nodes=0)).columns.node_selector == "<none>"


def test_columns_of_a_template_that_is_none() -> None:
    plain = ds()
    assert columns_of(replace(plain, spec=replace(plain.spec, template={"spec": []}))) == Columns(
        node_selector="<none>", containers="<none>", images="<none>", selector="app=demo"
    )


def test_a_failed_pass_prints_world_and_plan_readably() -> None:
    pods = [*served("node-0"), pending("node-1", "v2", terminating=True), failed("node-7", "")]
    shown = world(ds("v2", on_delete=True), nodes=["node-0", node("node-1", taint("x"))], pods=pods)
    drawn = picture(shown, plan(shown))
    assert "node-1     STAY   True      (node-1-v2 v2 Pending terminating unbound) [x:NoSchedule]" in drawn
    assert "node-7     gone             (node-7- no hash Failed)" in drawn
    assert "revisions 1: demo-v1, 2: demo-v2" in drawn


def test_the_condition_says_that_the_selector_leaves_nodes_out() -> None:
    _, reason, message = condition(
        world(ds("v2", selector={"canary": "yes"}), nodes=3, pods=everywhere(3)), "Progressing"
    )
    assert reason == "SelectorReached"
    assert "leaves out 3" in message


def test_the_condition_names_the_pods_that_a_hook_holds() -> None:
    hook = LifecycleHook(labels_handler={"hold": "yes"})
    held = prepared(pod("node-1", labels={"hold": "yes"}, name="held-one"))
    _, reason, message = condition(world(ds("v2", hook=hook), nodes=2, pods=(pod("node-0"), held)), "Progressing")
    assert reason == "HeldByLifecycleHook"
    assert "held-one" in message


def test_the_condition_names_no_more_than_three_pods() -> None:
    hook = LifecycleHook(labels_handler={"hold": "yes"})
    held = [prepared(pod(f"node-{number}", labels={"hold": "yes"})) for number in range(4)]
    since = f"by label hold=yes since {rfc3339(ago(60))}"
    _, _, message = condition(world(ds("v2", hook=hook), nodes=4, pods=held), "Progressing")
    assert message.endswith("the preDelete hook holds node-3-v1, node-2-v1, node-1-v1 and 1 more " + since)
    _, _, message = condition(world(ds("v2", hook=hook), nodes=3, pods=held[:3]), "Progressing")
    assert message.endswith("the preDelete hook holds node-2-v1, node-1-v1, node-0-v1 " + since)


def test_the_condition_says_when_the_budget_is_used_up() -> None:
    pods = (pod("node-0"), pod("node-1"), pod("node-2", "v2", ready=None))
    _, reason, message = condition(world(ds("v2"), nodes=3, pods=pods), "Progressing")
    assert reason == "MaxUnavailableInUse"
    assert "1 node counts as unavailable, maxUnavailable is 1" in message


def test_the_condition_says_when_the_surge_is_used_up() -> None:
    pods = [*everywhere(3), pod("node-2", "v2", ready=None)]
    _, reason, message = condition(world(ds("v2", max_surge=1), nodes=3, pods=pods), "Progressing")
    assert reason == "MaxSurgeInUse"
    assert message.endswith("; 1 node is in the middle of a surge, maxSurge is 1")
    _, _, message = condition(world(ds("v2", max_surge=2), nodes=3, pods=pods), "Progressing")
    assert message.endswith("nodes have a pod of revision v2")


def test_while_an_old_pod_terminates_the_new_one_stands_for_the_node() -> None:
    pods = [pod("node-0", terminating=True), pod("node-0", "v2")]
    done = counts(world(ds("v2", max_surge=1), nodes=1, pods=pods))
    assert (done.number_ready, done.number_available, done.updated_number_scheduled) == (1, 1, 1)


def more(of: World) -> bool:
    return plan(of).more


def test_where_all_is_well_nothing_more_is_to_come() -> None:
    assert not more(world(pods=everywhere(5)))
    assert not more(world(fresh=False, revisions=[]))


def test_claims_and_history_are_followed_by_the_pods() -> None:
    assert more(world(nodes=1, orphans=(pod("node-0", owner=""),)))
    assert more(world(revisions=[]))
    assert more(world(revisions=[revision("v1", 1), revision("v2", 2)]))


def test_what_the_burst_left_over_is_to_come() -> None:
    assert more(world(ds(burst=2)))
    assert not more(world(ds(burst=5))), "created pods announce themselves"
    unwanted = ds(burst=2, nodeSelector={"color": "blue"})
    assert more(world(unwanted, nodes=3, pods=everywhere(3)))
    assert not more(world(unwanted, nodes=2, pods=everywhere(2)))


def test_old_pods_that_wait_for_their_turn_are_to_come() -> None:
    assert more(world(ds("v2"), pods=everywhere(5)))
    assert more(world(ds("v2"), pods=[*everywhere(4), pod("node-4", "v2", ready=None)]))
    assert more(world(ds("v2"), pods=everywhere(4))), "a pod is made first, then the next old one goes"
    last = [*served("node-0"), *served("node-1", "node-2", "node-3", "node-4", rev="v2")]
    assert not more(world(ds("v2"), pods=last)), "the last one goes now"


def test_nothing_more_is_to_come_of_a_rollout_that_stands_still_on_purpose() -> None:
    for still in ({"paused": True}, {"on_delete": True}, {"partition": 5}):
        assert not more(world(ds("v2", **still), pods=everywhere(5))), still
        assert not more(world(ds("v2", **still), pods=everywhere(4))), still
