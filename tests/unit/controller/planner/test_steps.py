"""How many nodes may hold the current revision, and when the next step begins: `rollingUpdate.steps`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSet, DaemonSetStatus, Rollout, RolloutStep, UnreachableNodes
from controller.api.objects import rfc3339
from controller.planner.blocker_texts import Blocker
from controller.planner.explanation import Explainer
from controller.planner.rollout_state import rollout_state
from controller.planner.world import ClockOffset
from tests.beds.toy_cluster import ToyCluster
from tests.beds.worlds import LONG, ago, ds, everywhere, node, revision, served, taint, world
from tests.unit.controller.planner.test_topology import blocked, said

ONE_HALF_ALL = (
    RolloutStep(nodes=1, soak="1m"),
    RolloutStep(nodes="50%", soak="30s", approval="Required"),
    RolloutStep(),
)
STABLE = DaemonSetStatus(update_revision="v1", rollout=Rollout(stable_revision="v1", start_time=rfc3339(ago(9999))))


def stepped(
    rev: str = "v2", steps: tuple[RolloutStep, ...] = ONE_HALF_ALL, said: Mapping[str, str] | None = None, **how: Any
) -> DaemonSet:
    limits = {"max_unavailable": "100%", **how}
    more = limits.pop("rolling", {})
    return replace(ds(rev, rolling={"steps": steps, **more}, annotations=said, **limits), status=STABLE)


def begun(daemonset: DaemonSet | None = None, **fields: Any) -> ToyCluster:
    """v1 is stable on four nodes, and v2 is wanted."""
    return ToyCluster(world(daemonset or stepped(), **{"nodes": 4, "pods": everywhere(4), **fields}))


def at(cluster: ToyCluster) -> tuple[str, int | None, int | None]:
    status = cluster.status
    return status.rollout.phase, status.rollout.step, status.rollout.steps


def one_step_on(cluster: ToyCluster, *moves: str) -> None:
    cluster.expect(*moves, "")
    cluster.ready()
    cluster.expect("")


def test_a_rollout_walks_through_its_steps() -> None:
    cluster = begun()
    one_step_on(cluster, "-node-3 v1", "+node-3 v2")
    assert at(cluster) == ("Soaking", 1, 3)
    assert blocked(cluster.plan) == {"StepReached", "Soaking"}
    assert f"; step 1 of 3 soaks until {rfc3339(cluster.world.now + 60)}" in said(cluster.plan, "Ready")[2]
    cluster.pass_time(59)
    cluster.expect("")
    cluster.pass_time(2)
    cluster.expect("")
    assert at(cluster) == ("Progressing", 2, 3)
    one_step_on(cluster, "-node-2 v1", "+node-2 v2")
    cluster.change_where(lambda one: one.node == "node-2", ready=False)
    cluster.expect("")
    assert "; step 2 of 3 allows 2 nodes" in said(cluster.plan, "Ready")[2]
    cluster.ready()
    cluster.expect("")
    cluster.pass_time(31)
    cluster.expect("")
    assert at(cluster) == ("AwaitingApproval", 2, 3)
    assert blocked(cluster.plan) == {"StepReached", "AwaitingApproval"}
    cluster.edit(stepped(said={"kruise-ds/approve": "v2/2"}))
    cluster.expect("", "-node-1 v1, -node-0 v1", "+node-0 v2, +node-1 v2", "")
    cluster.ready()
    cluster.expect("")
    status = cluster.status
    assert at(cluster) == ("Healthy", 3, 3)
    assert blocked(cluster.plan) == set()
    assert status.columns.step == "3/3"
    assert status.rollout.stable_revision == "v1"
    cluster.pass_time(31)
    cluster.expect("", "")
    assert cluster.status.rollout.stable_revision == "v2"
    assert at(cluster) == ("Healthy", 3, 3)


@pytest.mark.parametrize("value", ["v1/2", "v2/1", "v2/3", "v2", "", "x"])
def test_only_an_approval_of_this_step_of_this_revision_counts(value: str) -> None:
    steps = (RolloutStep(nodes=1), RolloutStep(nodes=2, approval="Required"), RolloutStep())
    cluster = begun(stepped(steps=steps, said={"kruise-ds/approve": value}))
    for _ in range(3):
        cluster.settle()
        cluster.ready()
    cluster.expect("")
    assert at(cluster) == ("AwaitingApproval", 2, 3)
    assert [one.reason for one in cluster.plan.rollout_events] == ["AwaitingApproval"]
    cluster.expect("")
    assert cluster.plan.rollout_events == ()
    assert "kruise-ds/approve=v2/2" in said(cluster.plan, "Ready")[2]
    assert said(cluster.plan, "Progressing")[:2] == ("Unknown", "AwaitingApproval")


def soaking() -> ToyCluster:
    cluster = begun(stepped(steps=(RolloutStep(nodes=2, soak="1m"), RolloutStep())))
    one_step_on(cluster, "-node-3 v1, -node-2 v1", "+node-2 v2, +node-3 v2")
    assert at(cluster)[0] == "Soaking"
    cluster.pass_time(40)
    return cluster


def test_a_pod_that_becomes_unavailable_begins_the_soak_anew() -> None:
    cluster = soaking()
    cluster.change_where(lambda one: one.node == "node-2", ready=False, ready_since=None)
    cluster.expect("")
    assert at(cluster)[0] == "Progressing"
    cluster.ready()
    cluster.expect("")
    cluster.pass_time(30)
    cluster.expect("")
    assert at(cluster) == ("Soaking", 1, 2)
    cluster.pass_time(32)
    cluster.expect("")
    assert at(cluster) == ("Progressing", 2, 2)


def test_so_does_one_that_no_pass_has_seen_unavailable() -> None:
    """It was so while no controller was running, or between two passes."""
    cluster = soaking()
    cluster.change_where(lambda one: one.node == "node-2", ready_since=cluster.world.now - 5)
    cluster.pass_time(30)
    cluster.expect("")
    assert at(cluster) == ("Soaking", 1, 2)
    cluster.pass_time(30)
    cluster.expect("")
    assert at(cluster) == ("Progressing", 2, 2)


def test_a_clock_that_jumps_makes_no_soak_shorter() -> None:
    cluster = soaking()
    cluster.world = replace(cluster.world, now=cluster.world.now + 3600, step_reached=cluster.world.now + 3560)
    cluster.expect("")
    assert at(cluster)[0] == "Soaking"


def test_a_step_is_recorded_by_the_clock_of_the_server_if_that_is_ahead() -> None:
    cluster = begun(server_offset=ClockOffset(ahead=40.0))
    one_step_on(cluster, "-node-3 v1", "+node-3 v2")
    reached = cluster.world.now
    assert cluster.status.rollout.step_reached_time == rfc3339(reached + 40)
    cluster.world = replace(cluster.world, now=reached + 61, step_reached=reached)
    cluster.expect("")
    assert at(cluster) == ("Progressing", 2, 3)
    assert cluster.status.rollout.last_transition_time == rfc3339(reached + 100), "as its soak is recorded"


def test_without_its_status_the_walk_begins_again_and_moves_no_node_back() -> None:
    cluster = soaking()
    daemonset = replace(cluster.world.daemonset, status=None)
    cluster.world = replace(cluster.world, daemonset=daemonset)
    cluster.expect("")
    assert at(cluster) == ("Soaking", 1, 2)
    cluster.pass_time(59)
    cluster.expect("")
    assert at(cluster) == ("Soaking", 1, 2)


@pytest.mark.parametrize(
    "cluster",
    [
        ToyCluster(world(replace(stepped("v1"), status=None), nodes=4)),
        begun(stepped("v1"), pods=served(*(f"node-{n}" for n in range(4)), rev="v2")),
        begun(stepped(said={"kruise-ds/skip-steps": "v2"})),
        begun(replace(stepped(), spec=stepped(on_delete=True).spec)),
        begun(stepped(steps=())),
    ],
    ids=["a first deployment", "back to the stable revision", "they are skipped", "OnDelete", "without steps"],
)
def test_steps_do_not_apply(cluster: ToyCluster) -> None:
    assert rollout_state(cluster.world).step_progress is None
    cluster.step()
    assert at(cluster)[1:] == (None, None)


def test_a_later_step_never_allows_less() -> None:
    status = DaemonSetStatus(update_revision="v2", rollout=Rollout(step=2, start_time=rfc3339(ago(9))))
    daemonset = replace(stepped(steps=(RolloutStep(nodes=3), RolloutStep(nodes=1))), status=status)
    progress = rollout_state(begun(daemonset).world).step_progress
    assert progress is not None
    assert (progress.step, progress.allowed) == (2, 3)


def test_a_percentage_is_of_the_nodes_that_the_selector_allows() -> None:
    nodes = [node(f"node-{n}", labels={"pool": "a"} if n else {}) for n in range(4)]
    cluster = begun(stepped(steps=(RolloutStep(nodes="50%"),), selector={"pool": "a"}), nodes=nodes)
    cluster.expect("-node-3 v1, -node-2 v1")


def test_partition_and_step_hold_together_and_a_step_that_is_not_reached_is_not_over() -> None:
    cluster = begun(stepped(steps=(RolloutStep(nodes=1), RolloutStep(nodes=3), RolloutStep()), partition=2))
    for _ in range(4):
        cluster.settle()
        cluster.ready()
    assert at(cluster) == ("Held", 2, 3)
    assert said(cluster.plan, "Progressing")[1] == "PartitionReached"
    assert [one.count("v2") for one in cluster.revisions().values()] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("how", "phase"), [({"nodes": 0, "pods": ()}, "Healthy"), ({}, "Held")], ids=["no nodes", "none are selected"]
)
def test_a_rollout_without_nodes_to_update_does_not_stall_and_walks_once_there_are_some(
    how: dict[str, Any], phase: str
) -> None:
    daemonset = stepped(selector={"pool": "a"})
    cluster = begun(daemonset, revisions=[revision("v1"), revision("v2", 2)], **how)
    cluster.expect("")
    cluster.pass_time(3000)
    cluster.expect("", "")
    assert at(cluster) == (phase, 1, 3)
    cluster.set_nodes(*(node(f"node-{n}", labels={"pool": "a"}) for n in range(4)))
    if phase == "Healthy":
        cluster.expect("+node-0 v1, +node-1 v1, +node-2 v1, +node-3 v2", "")
    else:
        assert said(cluster.plan, "Progressing")[1] == "SelectorReached"
        cluster.expect("-node-3 v1", "+node-3 v2", "")
    assert at(cluster) == ("Progressing", 1, 3)


def test_after_the_last_step_that_allows_not_all_the_rollout_is_held() -> None:
    cluster = begun(stepped(steps=(RolloutStep(nodes=2),)))
    cluster.settle()
    cluster.ready()
    cluster.expect("")
    assert at(cluster) == ("Held", 1, 1)
    assert said(cluster.plan, "Progressing")[1] == "StepReached"
    explainer = Explainer(rollout_state(cluster.world))
    assert {explainer.blocker(one) for one in explainer.rollout.nodes if one.only_old} == {Blocker.STEP}
    cluster.change_where(lambda one: one.node == "node-3", ready=False, ready_since=None)
    cluster.expect("")
    assert at(cluster)[0] == "Degraded"


def test_a_pause_stops_the_walk_and_not_the_soak() -> None:
    cluster = soaking()
    paused = stepped(steps=(RolloutStep(nodes=2, soak="1m"), RolloutStep()), paused=True)
    cluster.edit(paused)
    cluster.pass_time(60)
    cluster.expect("", "")
    assert at(cluster) == ("Paused", 1, 2)
    cluster.edit(stepped(steps=(RolloutStep(nodes=2, soak="1m"), RolloutStep())))
    cluster.expect("", "-node-1 v1, -node-0 v1")


def test_a_lost_pod_and_a_new_node_beyond_the_step_get_the_older_revision() -> None:
    cluster = soaking()
    cluster.lose("node-0-v1")
    cluster.set_nodes(node("node-4"))
    cluster.expect("+node-0 v1, +node-4 v1")


def test_with_partitioned_scaling_a_step_leaves_no_new_node_empty_and_the_partition_does() -> None:
    steps = (RolloutStep(nodes=1, soak="1m"), RolloutStep())
    cluster = begun(stepped(steps=steps, partition=3, partitioned_scaling=True))
    one_step_on(cluster, "-node-3 v1", "+node-3 v2")
    cluster.set_nodes(*(node(f"node-{n}") for n in range(4, 7)))
    cluster.expect("+node-4 v1, +node-5 v1, +node-6 v1", "")
    cluster = begun(stepped(steps=steps, partition=6, partitioned_scaling=True), nodes=8)
    cluster.expect("+node-4 v2, +node-5 v1")
    cluster = begun(stepped(steps=steps, partition=3, partitioned_scaling=True), nodes=6)
    cluster.expect("+node-4 v2, +node-5 v1")


def test_a_cluster_that_grows_begins_no_soak_anew() -> None:
    steps = (RolloutStep(nodes="50%", soak="1m"), RolloutStep())
    cluster = begun(stepped(steps=steps))
    one_step_on(cluster, "-node-3 v1, -node-2 v1", "+node-2 v2, +node-3 v2")
    cluster.set_nodes(node("node-4"))
    cluster.expect("+node-4 v1", "")
    assert at(cluster) == ("Soaking", 1, 2)


def test_a_cluster_that_grows_begins_the_soak_of_all_nodes_anew() -> None:
    cluster = begun(stepped(steps=(RolloutStep(nodes=9, soak="1m"),)))
    one_step_on(
        cluster, "-node-3 v1, -node-2 v1, -node-1 v1, -node-0 v1", "+node-0 v2, +node-1 v2, +node-2 v2, +node-3 v2"
    )
    assert at(cluster) == ("Soaking", 1, 1)
    cluster.set_nodes(node("node-4"))
    cluster.expect("+node-4 v2", "")
    assert at(cluster) == ("Progressing", 1, 1)


@pytest.mark.parametrize(
    "before", [{"nodes": 2}, {"nodes": 3, "partition": 2}, {"nodes": 3, "selector": {"pool": "a"}}]
)
def test_an_edit_by_which_the_step_allows_more_nodes_holds_at_once_and_begins_the_soak_anew(
    before: dict[str, Any],
) -> None:
    nodes = [node(f"node-{n}", labels={"pool": "a"} if n > 1 else {}) for n in range(4)]
    step, how = RolloutStep(nodes=before.pop("nodes"), soak="1m"), before
    cluster = begun(stepped(steps=(step, RolloutStep()), **how), nodes=nodes)
    one_step_on(cluster, "-node-3 v1, -node-2 v1", "+node-2 v2, +node-3 v2")
    cluster.pass_time(61)
    cluster.edit(stepped(steps=(RolloutStep(nodes=3, soak="1m"), RolloutStep())))
    one_step_on(cluster, "-node-1 v1", "+node-1 v2")
    cluster.pass_time(58)
    cluster.expect("", "")
    assert at(cluster) == ("Soaking", 1, 2)


def test_nodes_that_have_the_revision_take_no_place_of_those_that_another_selector_allows() -> None:
    nodes = [node(f"node-{n}", labels={"pool": "ab"[n % 2]}) for n in range(4)]
    cluster = begun(stepped(steps=(RolloutStep(),), selector={"pool": "b"}), nodes=nodes)
    one_step_on(cluster, "-node-3 v1, -node-1 v1", "+node-1 v2, +node-3 v2")
    cluster.edit(stepped(steps=(RolloutStep(),), selector={"pool": "a"}))
    cluster.expect("-node-2 v1, -node-0 v1", "+node-0 v2, +node-2 v2")
    assert cluster.status.rollout.step_reached_time is None


def test_a_step_without_a_soak_is_over_at_once() -> None:
    cluster = begun(stepped(steps=(RolloutStep(nodes=1), RolloutStep(nodes=2, soak="0s"), RolloutStep())))
    cluster.pass_time(0.5)
    cluster.expect("-node-3 v1", "+node-3 v2", "")
    cluster.ready()
    cluster.expect("")
    assert at(cluster) == ("Progressing", 2, 3)
    assert cluster.plan.wake_at is not None
    assert cluster.plan.wake_at - cluster.world.now < 0.1


def test_a_canary_that_leaves_the_cluster_is_replaced_before_the_soak_goes_on() -> None:
    cluster = begun()
    one_step_on(cluster, "-node-3 v1", "+node-3 v2")
    cluster.world = replace(
        cluster.world,
        nodes=cluster.world.nodes[:3],
        pods=tuple(one for one in cluster.world.pods if one.node != "node-3"),
    )
    cluster.expect("-node-2 v1")
    assert at(cluster)[0] == "Progressing"


def test_an_unreachable_node_that_is_left_out_is_no_canary() -> None:
    lost = taint("node.kubernetes.io/unreachable", "NoExecute")
    leaving = {"unreachable_nodes": UnreachableNodes(leave_out=1)}
    nodes = [*(node(f"node-{n}") for n in range(3)), node("node-3", lost)]
    cluster = begun(stepped(rolling=leaving), nodes=nodes)
    cluster.expect("-node-2 v1")


@pytest.mark.parametrize(("leave_out", "phase"), [(1, "Soaking"), (0, "Progressing")], ids=["left out", "waited for"])
@pytest.mark.parametrize("ready", [True, False])
def test_a_step_waits_for_no_canary_that_is_left_out(leave_out: int, phase: str, ready: bool) -> None:
    lost = taint("node.kubernetes.io/unreachable", "NoExecute")
    leaving = {"unreachable_nodes": UnreachableNodes(leave_out=leave_out)} if leave_out else {}
    cluster = begun(stepped(steps=(RolloutStep(nodes=2, soak="1m"), RolloutStep()), rolling=leaving))
    one_step_on(cluster, "-node-3 v1, -node-2 v1", "+node-2 v2, +node-3 v2")
    cluster.set_nodes(node("node-3", lost))
    if not ready:
        cluster.change_where(lambda one: one.node == "node-3", ready=False, ready_since=None)
    cluster.expect("", "")
    assert at(cluster) == (phase, 1, 2)


@pytest.mark.parametrize("ready", [True, False])
def test_a_step_waits_without_a_deadline_while_all_its_canaries_are_left_out(ready: bool) -> None:
    lost = taint("node.kubernetes.io/unreachable", "NoExecute")
    cluster = begun(stepped(rolling={"unreachable_nodes": UnreachableNodes(leave_out=1)}))
    one_step_on(cluster, "-node-3 v1", "+node-3 v2")
    cluster.set_nodes(node("node-3", lost))
    cluster.change_where(lambda one: one.node == "node-3", ready=ready)
    cluster.expect("")
    cluster.pass_time(3000)
    cluster.expect("", "")
    assert at(cluster) == ("Progressing", 1, 3)
    assert said(cluster.plan, "Stalled")[0] == "False"
    assert said(cluster.plan, "Progressing")[1] == "NodesUnreachable"
    cluster.set_nodes(node("node-3"))
    cluster.ready()
    cluster.expect("")
    assert at(cluster) == ("Soaking", 1, 3)


def test_the_status_does_not_change_merely_because_time_passes() -> None:
    cluster = soaking()
    cluster.expect("")
    before = cluster.status
    cluster.pass_time(5)
    cluster.expect("")
    assert replace(cluster.status, soaks_until=None) == replace(before, soaks_until=None)


def test_an_edit_that_leaves_fewer_steps_goes_on_with_the_last_one() -> None:
    cluster = begun()
    one_step_on(cluster, "-node-3 v1", "+node-3 v2")
    cluster.pass_time(61)
    cluster.expect("")
    one_step_on(cluster, "-node-2 v1", "+node-2 v2")
    cluster.pass_time(31)
    cluster.edit(stepped(steps=(RolloutStep(nodes=2, soak="30s"),)))
    cluster.expect("")
    assert at(cluster) == ("Soaking", 1, 1)


def test_another_template_begins_at_the_first_step() -> None:
    cluster = soaking()
    cluster.pass_time(30)
    cluster.expect("")
    assert at(cluster) == ("Progressing", 2, 2)
    cluster.edit(stepped("v3", steps=(RolloutStep(nodes=1, soak="1m"), RolloutStep())))
    cluster.expect("-node-3 v2")
    assert at(cluster) == ("Progressing", 1, 2)


@pytest.mark.parametrize(
    ("step", "says"),
    [
        (RolloutStep(nodes="x"), "steps[0].nodes: 'x' is neither"),
        (RolloutStep(soak="1 minute"), "steps[0].soak: '1 minute' is not a duration"),
        (RolloutStep(soak="721h"), "steps[0].soak: '721h' is longer than 30 days"),
    ],
)
def test_a_bad_step_is_named(step: RolloutStep, says: str) -> None:
    (problem,) = world(ds(rolling={"steps": (step,)})).rules.problems
    assert problem.startswith(f"spec.updateStrategy.rollingUpdate.{says}")


def test_the_sentence_counts_nodes_beyond_the_step_too() -> None:
    """As after a lost status, or an edit that allows fewer."""
    cluster = begun(pods=(*served("node-0", "node-1", "node-2", rev="v2"), *served("node-3")))
    cluster.expect("")
    assert at(cluster) == ("Soaking", 1, 3)
    assert said(cluster.plan, "Ready")[2].startswith("3 of 4 nodes have an available pod of revision v2; step 1 ")
    cluster.change_where(lambda one: one.node == "node-0", terminating=True)
    cluster.step()
    assert at(cluster) == ("Progressing", 1, 3), "each of them has to be available"


@pytest.mark.parametrize("lost", [True, False])
def test_a_node_beyond_the_step_that_keeps_it_from_being_reached_is_named(lost: bool) -> None:
    """As after a lost status. The deadline does not count for an unreachable one."""
    taints = [taint("node.kubernetes.io/unreachable", "NoExecute")] if lost else []
    nodes = [node("node-0", *taints), node("node-1"), node("node-2")]
    sick = served("node-0", rev="v2", ready=ago(LONG) if lost else None)
    cluster = begun(nodes=nodes, pods=(*sick, *served("node-1", rev="v2"), *served("node-2")))
    cluster.expect("")
    cluster.pass_time(601)
    cluster.expect("")
    assert at(cluster)[0] == ("Progressing" if lost else "Stalled")
    assert "node-0" in said(cluster.plan, "Ready")[2]
    assert said(cluster.plan, "Progressing")[1] == ("NodesUnreachable" if lost else "ProgressDeadlineExceeded")
