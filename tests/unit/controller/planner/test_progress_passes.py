"""Phase, deadline and the condition Progressing, pass by pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from controller.api.wellknown import PROGRESS_DEADLINE_ANNOTATION
from controller.planner.plan import plan
from tests.beds.dry_runs import refusing
from tests.beds.toy_cluster import ToyCluster
from tests.beds.worlds import NOW, ago, ds, everywhere, node, pending, pod, served, world
from tests.unit.controller.planner.test_partition import CANARY


def annotated(seconds: str, *, min_ready: int = 0) -> Mapping[str, Any]:
    return {"annotations": {PROGRESS_DEADLINE_ANNOTATION: seconds}, "min_ready": min_ready}


def phase(cluster: ToyCluster) -> str:
    assert cluster.plan.status is not None
    return cluster.plan.status.rollout.phase


def progressing(cluster: ToyCluster) -> tuple[str, str, str]:
    assert cluster.plan.status is not None
    [found] = [one for one in cluster.plan.status.conditions if one.type == "Progressing"]
    return found.status, found.reason, found.message


def test_a_first_deployment_is_pending_then_progressing_then_healthy() -> None:
    cluster = ToyCluster(world(nodes=2))
    phases = []
    for _ in range(2):
        cluster.step()
        phases.append(phase(cluster))
    cluster.ready()
    cluster.step()
    assert [*phases, phase(cluster)] == ["Pending", "Progressing", "Healthy"]
    assert cluster.plan.wake_at is None


def test_a_lost_pod_makes_no_observed_generation_pending_again() -> None:
    cluster = ToyCluster(world(nodes=2, pods=everywhere(2)))
    cluster.step()
    cluster.lose("node-1-v1")
    cluster.expect("+node-1 v1")
    assert phase(cluster) == "Degraded"


def test_the_plan_wakes_up_at_the_deadline_and_says_what_it_waited_for() -> None:
    cluster = ToyCluster(world(ds("v1"), nodes=3, pods=everywhere(3)))
    cluster.edit(ds("v2", **annotated("60")))
    cluster.expect("-node-2 v1", "+node-2 v2", "")
    assert cluster.plan.wake_at == pytest.approx(NOW + 60.05)
    cluster.pass_time(61)
    cluster.expect("")
    assert phase(cluster) == "Stalled"
    assert cluster.plan.wake_at is None
    status, reason, message = progressing(cluster)
    assert (status, reason) == ("False", "ProgressDeadlineExceeded")
    assert message == (
        "1 of 3 nodes have a pod of revision v2; no progress for 60 seconds; no new pod is available on node-2; "
        "1 nodes count as unavailable, maxUnavailable is 1"
    )
    cluster.ready()
    cluster.settle()
    assert phase(cluster) == "Progressing"
    assert progressing(cluster)[:2] == ("True", "Updating")


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [("60", 60), ("0", 600), ("-5", 600), ("soon", 600), ("", 600), ("1e3", 600), ("\u0663", 600), ("9" * 5000, 600)],
)
def test_the_deadline_is_that_of_the_annotation_where_it_can_be_read(asked: str, seconds: int) -> None:
    assert ds(**annotated(asked)).progress_deadline == seconds
    assert ds(**annotated(asked, min_ready=30)).progress_deadline == seconds + 30


def test_without_an_annotation_it_is_ten_minutes() -> None:
    assert ds().progress_deadline == 600


def test_a_refused_template_stalls_the_rollout_and_keeps_its_reason() -> None:
    cluster = ToyCluster(world(ds("v2"), nodes=2, pods=everywhere(2), verdicts=refusing("v2"), ask_at=NOW + 60))
    cluster.step()
    assert phase(cluster) == "Stalled"
    assert progressing(cluster)[:2] == ("False", "TemplateRefused")


def test_an_unusable_spec_is_stalled() -> None:
    decided = plan(world(ds(partition="many")))
    assert decided.status is not None
    assert decided.status.rollout.phase == "Stalled"


def test_the_condition_says_complete_only_when_the_last_pod_is_available() -> None:
    cluster = ToyCluster(world(ds("v2"), nodes=1, pods=[pending("node-0", "v2")]))
    cluster.step()
    assert progressing(cluster)[1] == "Updating"
    cluster.ready()
    cluster.step()
    assert progressing(cluster)[1] == "RolloutComplete"
    cluster.change_where(lambda _: True, ready=False, ready_since=None)
    cluster.step()
    assert (phase(cluster), progressing(cluster)[1]) == ("Degraded", "RolloutComplete")


def test_a_kept_pod_that_is_not_ready_leaves_it_held() -> None:
    pods = (*served("node-1", rev="v2"), pod("node-0", ready=None))
    cluster = ToyCluster(world(ds("v2", partition=1), nodes=2, pods=pods))
    cluster.step()
    assert (phase(cluster), progressing(cluster)[1]) == ("Held", "PartitionReached")


def test_with_partition_and_selector_the_condition_names_what_holds() -> None:
    nodes = [node("node-0", labels=CANARY), "node-1", "node-2"]
    pods = (*served("node-0", rev="v2"), *served("node-1", "node-2"))
    for partition, reason in ((1, "SelectorReached"), (2, "PartitionReached")):
        cluster = ToyCluster(world(ds("v2", selector=CANARY, partition=partition), nodes=nodes, pods=pods))
        cluster.step()
        assert (phase(cluster), progressing(cluster)[1]) == ("Held", reason)


def test_paused_at_the_partition_it_is_held() -> None:
    pods = (*served("node-1", rev="v2", ready=ago(9)), *served("node-0"))
    cluster = ToyCluster(world(ds("v2", partition=1, paused=True), nodes=2, pods=pods))
    cluster.step()
    assert (phase(cluster), progressing(cluster)[1]) == ("Held", "PartitionReached")


def test_while_an_edit_is_pending_the_condition_says_what_is_known() -> None:
    cluster = ToyCluster(world(ds("v2", paused=True, generation=2), nodes=3, pods=everywhere(2)))
    cluster.step()
    assert (phase(cluster), progressing(cluster)[1]) == ("Pending", "Paused")


def test_a_pass_that_looks_again_wants_the_same_record() -> None:
    cluster = ToyCluster(world(ds("v1"), nodes=3, pods=everywhere(3)))
    cluster.edit(ds("v2"))
    cluster.settle()
    first = cluster.plan.status
    cluster.pass_time(300)
    cluster.step()
    assert cluster.plan.status == first
