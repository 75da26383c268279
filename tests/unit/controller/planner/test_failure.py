"""When a rollout is aborted, and how it goes on: `rollingUpdate.onFailure`."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSet, DaemonSetStatus, OnFailure, Rollout, RolloutStep
from controller.planner.failure import effective_daemonset
from controller.planner.rollout_state import rollout_state
from controller.planner.world import ClockOffset
from tests.beds.toy_cluster import ToyCluster
from tests.beds.worlds import ds, everywhere, node, pod, revision, served, taint, world
from tests.unit.controller.planner.test_steps import STABLE, at
from tests.unit.controller.planner.test_topology import blocked, said

TWO = OnFailure(unavailable_nodes=2, after="5m")
UNREACHABLE = taint("node.kubernetes.io/unreachable", "NoExecute")


def careful(on_failure: OnFailure = TWO, rev: str = "v2", **how: Any) -> DaemonSet:
    said = how.pop("said", {})
    rolling = {"on_failure": on_failure, **how.pop("rolling", {})}
    daemonset = ds(rev, rolling=rolling, annotations=said, **{"max_unavailable": 2, **how})
    return replace(daemonset, status=STABLE)


def begun(daemonset: DaemonSet | None = None, *, ill: tuple[int, ...] = ()) -> ToyCluster:
    """v1 is stable on five nodes, v2 is on its way to the last two, and does not get ready there."""
    pods = [pod(f"node-{n}", ready=None) if n in ill else pod(f"node-{n}") for n in range(5)]
    cluster = ToyCluster(world(daemonset or careful(), nodes=5, pods=pods))
    cluster.settle()
    fail(cluster, *(one.node for one in cluster.world.pods if one.hash == "v2"))
    return cluster


def fail(cluster: ToyCluster, *nodes: str, **fields: Any) -> None:
    now = cluster.world.now
    cluster.change_where(lambda one: one.node in nodes, unready_since=now, bound=True, phase="Running", **fields)


def after(cluster: ToyCluster, seconds: float, *moves: str) -> str:
    """The phase then."""
    cluster.pass_time(seconds)
    cluster.expect(*(moves or ("",)))
    return at(cluster)[0]


def test_enough_updated_nodes_without_an_available_pod_for_long_enough_abort_the_rollout() -> None:
    cluster = begun()
    assert after(cluster, 299) == "Progressing"
    assert cluster.plan.wake_at is not None
    assert cluster.plan.wake_at <= cluster.world.now + 2
    assert after(cluster, 2) == "Aborted"
    assert cluster.plan.wake_at is not None, "the next pass decides from the record"
    assert cluster.plan.wake_at <= cluster.world.now + 1
    status = cluster.status
    assert status.rollout.aborted_revision == "v2"
    kind, reason, message = said(cluster.plan, "Stalled")
    assert (kind, reason) == ("True", "RolloutAborted")
    assert message.startswith(
        "revision v2 was aborted: 2 updated nodes have no available pod for longer than 5m: pod "
    )
    assert "on node-4" in message
    assert [one.reason for one in cluster.plan.rollout_events] == ["RolloutAborted"]
    assert after(cluster, 60) == "Aborted"
    assert cluster.plan.rollout_events == ()


@pytest.mark.parametrize("between", ["other pods", "no pods", "a restart of the controller"])
def test_a_pod_that_is_made_again_begins_nothing_anew(between: str) -> None:
    cluster = begun()
    assert after(cluster, 200) == "Progressing"
    if between == "no pods":
        cluster.world = replace(cluster.world, not_before={f"node-{n}": cluster.world.now + 9999 for n in range(5)})
    for one in [one for one in cluster.world.pods if one.hash == "v2"]:
        cluster.lose(one.name)
    if between == "a restart of the controller":
        cluster.world = replace(cluster.world, unavailable_since=None)
    made = "+node-3 v2, +node-4 v2" if between != "no pods" else ""
    assert after(cluster, 1, made, "") == "Progressing"
    fail(cluster, "node-3", "node-4")
    assert after(cluster, 98) == "Progressing"
    assert after(cluster, 2) == ("Progressing" if "restart" in between else "Aborted")
    assert after(cluster, 250) == "Aborted"


def test_a_node_that_is_heard_of_again_has_its_time_to_recover() -> None:
    cluster = begun(careful(partition=3))
    cluster.ready()
    cluster.settle()
    for name in ("node-3", "node-4"):
        cluster.set_nodes(node(name, UNREACHABLE))
    fail(cluster, "node-3", "node-4", ready=False, ready_since=None)
    assert after(cluster, 3000) != "Aborted"
    for name in ("node-3", "node-4"):
        cluster.set_nodes(node(name))
    assert after(cluster, 1) != "Aborted"
    assert after(cluster, 299) != "Aborted"
    assert after(cluster, 2) == "Aborted"


def test_a_pod_that_is_only_younger_than_min_ready_seconds_is_no_failure() -> None:
    cluster = begun(careful(min_ready=3000))
    cluster.ready()
    assert after(cluster, 1) == "Progressing"
    assert after(cluster, 600) == "Progressing"
    fail(cluster, "node-3", "node-4", ready=False, ready_since=None)
    assert after(cluster, 1) == "Aborted", "none was available since the update"


def test_an_edit_of_other_fields_sends_no_second_event_of_an_abort() -> None:
    cluster = begun(careful(OnFailure(restarts=3)))
    fail(cluster, "node-4", restarts=3)
    assert after(cluster, 1) == "Aborted"
    cluster.lose(next(one.name for one in cluster.world.pods if one.node == "node-0"))
    cluster.edit(replace(careful(OnFailure(restarts=3)), generation=cluster.world.daemonset.generation + 1))
    assert after(cluster, 1, "+node-0 v1") == "Pending"
    cluster.ready("node-0")
    assert after(cluster, 1) == "Aborted"
    assert cluster.plan.rollout_events == ()


@pytest.mark.parametrize("nodes", [2, "30%"], ids=["two", "a percentage, rounded up to two"])
def test_fewer_do_not(nodes: int | str) -> None:
    cluster = begun(careful(OnFailure(unavailable_nodes=nodes, after="5m")))
    cluster.ready("node-4")
    assert after(cluster, 3000, "-node-2 v1") in ("Progressing", "Stalled")
    assert cluster.status.fails_at == inf


def test_at_least_one_node_has_to_fail() -> None:
    assert after(begun(careful(OnFailure(unavailable_nodes="0%"))), 1) == "Progressing"


@pytest.mark.parametrize(
    ("restarts", "phase"), [(2, "Progressing"), (3, "Aborted")], ids=["two restarts", "three restarts"]
)
def test_so_do_enough_restarts_of_one_container(restarts: int, phase: str) -> None:
    cluster = begun(careful(OnFailure(restarts=3)))
    fail(cluster, "node-4", restarts=restarts)
    assert after(cluster, 1) == phase
    if phase == "Aborted":
        assert "on node-4 restarted 3 times" in said(cluster.plan, "Stalled")[2]


@pytest.mark.parametrize("why", ["restarts", "unavailable pods"])
def test_without_its_status_an_abort_is_found_again_before_any_node_is_taken(why: str) -> None:
    cluster = begun(careful(OnFailure(restarts=3, unavailable_nodes=1)))
    cluster.pass_time(301)
    if why == "restarts":
        fail(cluster, "node-4", restarts=3)
        cluster.ready()
    cluster.expect("")
    assert at(cluster)[0] == "Aborted"
    cluster.ready("node-3")
    cluster.world = replace(cluster.world, daemonset=replace(cluster.world.daemonset, status=None))
    cluster.expect("", "")
    assert at(cluster)[0] == "Aborted"
    assert cluster.revisions()["node-2"] == "v1"


@pytest.mark.parametrize("stable", [True, False])
def test_what_is_rolled_out_is_not_aborted_even_if_its_status_is_lost(stable: bool) -> None:
    record = Rollout(stable_revision="v2", start_time="2026-01-01T00:00:00Z")
    pods = [replace(one, restarts=9) for one in served(*(f"node-{n}" for n in range(5)), rev="v2")]
    status = DaemonSetStatus(update_revision="v2", rollout=record) if stable else None
    daemonset = replace(careful(OnFailure(restarts=3)), status=status)
    cluster = ToyCluster(world(daemonset, nodes=5, pods=pods, revisions=[revision("v1"), revision("v2", 2)]))
    cluster.expect("", "")
    assert at(cluster)[0] == "Healthy"


def test_a_first_deployment_is_not_aborted() -> None:
    cluster = ToyCluster(world(replace(careful(OnFailure(restarts=3), "v1"), status=None), nodes=5))
    cluster.settle()
    fail(cluster, "node-4", restarts=9)
    assert after(cluster, 1) == "Progressing"


def test_restarts_count_in_pods_updated_in_place_since_the_update_and_a_retry() -> None:
    cluster = begun(careful(OnFailure(restarts=3)))
    fail(cluster, "node-4", restarts=3, created=0.0, updated_at=cluster.world.now)
    assert after(cluster, 1) == "Aborted"
    cluster.edit(careful(OnFailure(restarts=3), said={"kruise-ds/retry": "v2"}))
    assert after(cluster, 1) == "Progressing"
    assert after(cluster, 1) == "Progressing"


@pytest.mark.parametrize("behind", [0.02, 40.0])
def test_restarts_count_in_pods_that_were_made_by_a_clock_that_is_behind(behind: float) -> None:
    cluster = begun(careful(OnFailure(restarts=3)))
    cluster.world = replace(cluster.world, server_offset=ClockOffset(ahead=-behind))
    fail(cluster, "node-4", restarts=3, created=float(int(cluster.world.now - behind)))
    assert after(cluster, 1) == "Aborted"


def test_a_node_that_joins_by_a_clock_that_is_behind_aborts_nothing() -> None:
    cluster = begun(careful(OnFailure(unavailable_nodes=1), partition=3))
    cluster.ready()
    cluster.settle()
    cluster.world = replace(cluster.world, server_offset=ClockOffset(ahead=-40.0))
    cluster.set_nodes(replace(node("node-9"), created=cluster.world.now - 40))
    cluster.settle()
    fail(cluster, "node-9")
    assert after(cluster, 3000) != "Aborted"


def test_pods_of_the_old_revision_abort_nothing() -> None:
    cluster = ToyCluster(world(careful(), nodes=5, pods=everywhere(5)))
    cluster.step()
    fail(cluster, "node-0", "node-1", "node-2", ready=False, ready_since=None, restarts=9)
    assert after(cluster, 400, "+node-3 v2, +node-4 v2") != "Aborted"


@pytest.mark.parametrize("what", ["unreachable", "deleted", "ill before"])
def test_what_is_no_failure_of_the_revision_aborts_nothing(what: str) -> None:
    cluster = begun(ill=(3, 4) if what == "ill before" else ())
    for name in ("node-3", "node-4"):
        if what == "unreachable":
            cluster.set_nodes(node(name, UNREACHABLE))
        if what == "deleted":
            cluster.set_nodes(replace(node(name), terminating=True))
    assert after(cluster, 400) != "Aborted"


def aborted(**how: Any) -> ToyCluster:
    cluster = begun(careful(**how))
    assert after(cluster, 301) == "Aborted"
    return cluster


def test_no_node_newly_gets_an_aborted_revision_and_lost_pods_come_back_as_they_were() -> None:
    cluster = aborted()
    cluster.ready()
    assert after(cluster, 1) == "Aborted", "also when the pods get available after all"
    assert "RolloutAborted" in blocked(cluster.plan)
    cluster.lose("node-0-v1")
    cluster.set_nodes(node("node-5"))
    cluster.expect("+node-0 v1, +node-5 v1", "")
    (new,) = [one for one in cluster.world.pods if one.node == "node-4"]
    cluster.lose(new.name)
    cluster.expect("+node-4 v2", "")


def test_a_node_that_joins_gets_no_aborted_revision_even_if_all_others_have_it() -> None:
    cluster = begun(careful(OnFailure(restarts=3), max_unavailable=5))
    cluster.ready()
    fail(cluster, "node-4", restarts=3)
    assert after(cluster, 1) == "Aborted"
    assert set(cluster.revisions().values()) == {"v2"}
    cluster.set_nodes(node("node-5"))
    cluster.expect("+node-5 v1", "")


def test_another_template_ends_the_abort() -> None:
    cluster = aborted()
    cluster.edit(careful(rev="v3"))
    cluster.expect("-node-4 v2, -node-3 v2")
    assert at(cluster)[0] == "Progressing"


def test_a_retry_begins_at_the_first_step_and_counts_once() -> None:
    steps = {"steps": (RolloutStep(nodes=2), RolloutStep())}
    cluster = aborted(rolling=steps)
    cluster.edit(careful(rolling=steps, said={"kruise-ds/retry": "v2"}))
    cluster.expect("")
    assert at(cluster) == ("Progressing", 1, 2)
    assert after(cluster, 299) == "Progressing", "failures count from the retry"
    assert after(cluster, 3) == "Aborted"
    assert after(cluster, 60) == "Aborted", "the annotation is obeyed once"
    cluster.edit(careful(rolling=steps, said={"kruise-ds/retry": "v2/again"}))
    cluster.expect("")
    cluster.ready()
    cluster.expect("", "-node-2 v1, -node-1 v1")


def test_a_retry_that_was_asked_for_before_the_abort_tries_nothing_again() -> None:
    cluster = begun()
    cluster.edit(careful(said={"kruise-ds/retry": "v2"}))
    assert after(cluster, 301) == "Aborted"
    assert after(cluster, 60) == "Aborted"
    cluster.edit(careful(said={"kruise-ds/retry": "v2/2"}))
    assert after(cluster, 1) == "Progressing"


def test_a_person_can_go_on_in_spite_of_it() -> None:
    cluster = aborted()
    cluster.ready()
    cluster.edit(careful(said={"kruise-ds/skip-steps": "v2"}))
    cluster.expect("-node-2 v1, -node-1 v1")


def test_a_clock_that_jumps_aborts_nothing() -> None:
    cluster = begun()
    cluster.expect("")
    since = {name: moment + 3600 for name, moment in (cluster.world.unavailable_since or {}).items()}
    cluster.world = replace(cluster.world, unavailable_since=since)
    assert after(cluster, 3600) != "Aborted"
    assert not rollout_state(cluster.world).abort


@pytest.mark.parametrize("after_", ["5", "1d"])
def test_a_bad_duration_is_named(after_: str) -> None:
    (problem,) = world(ds(rolling={"on_failure": OnFailure(restarts=1, after=after_)})).rules.problems
    assert problem.startswith(f"spec.updateStrategy.rollingUpdate.onFailure.after: '{after_}' is not a duration")


# going back

BACK = OnFailure(unavailable_nodes=2, after="5m", action="RollBack")


def going_back(**how: Any) -> ToyCluster:
    cluster = begun(careful(BACK, **how))
    assert after(cluster, 301) == "Aborted"
    return cluster


def test_nodes_that_have_the_aborted_revision_get_the_stable_one_back() -> None:
    cluster = going_back()
    cluster.expect("renumber demo-v1 3", "-node-4 v2, -node-3 v2", "+node-3 v1, +node-4 v1", "")
    cluster.ready()
    cluster.expect("", "")
    assert at(cluster)[0] == "Aborted"
    assert set(cluster.revisions().values()) == {"v1"}
    status = cluster.status
    assert (status.revision_hash, status.rollout.aborted_revision) == ("v1", "v2")
    assert status.rollout.stable_revision == "v1"
    kind, reason, message = said(cluster.plan, "Stalled")
    assert (kind, reason) == ("True", "RolloutAborted")
    assert message.startswith("revision v2 was aborted: 2 updated nodes have no available pod")
    assert "nodes get revision v1 back" in message


def test_a_retry_that_fails_too_goes_back_and_counts_once() -> None:
    cluster = going_back()
    cluster.settle()
    cluster.ready()
    cluster.edit(careful(BACK, said={"kruise-ds/retry": "v2"}))
    cluster.step()
    cluster.settle()
    cluster.settle()
    fail(cluster, *(one.node for one in cluster.world.pods if one.hash == "v2"))
    assert after(cluster, 301) == "Aborted"
    cluster.settle()
    cluster.ready()
    cluster.settle()
    assert set(cluster.revisions().values()) == {"v1"}


def test_a_revision_that_is_being_deleted_is_not_gone_back_to() -> None:
    cluster = going_back()
    dying = [replace(one, terminating=one.hash == "v1") for one in cluster.world.revisions]
    assert not effective_daemonset(cluster.world.daemonset, dying).rolled_back


def test_the_aborted_revision_is_kept_for_a_retry() -> None:
    cluster = going_back(history=0)
    cluster.settle()
    cluster.ready()
    cluster.settle()
    assert {one.hash for one in cluster.world.revisions} == {"v1", "v2"}


def test_available_ones_go_back_within_the_limits() -> None:
    cluster = begun(careful(BACK, max_unavailable=1, rolling={"steps": (RolloutStep(nodes=4), RolloutStep())}))
    for _ in range(3):
        cluster.ready()
        cluster.settle()
    fail(cluster, "node-4", "node-3", ready=False, ready_since=None)
    cluster.expect("")
    assert after(cluster, 301) == "Aborted"
    cluster.expect(
        "renumber demo-v1 3", "-node-4 v2, -node-3 v2, -node-1 v2", "+node-1 v1, +node-3 v1, +node-4 v1", ""
    )
    cluster.ready()
    cluster.expect("-node-2 v2")


@pytest.mark.parametrize("limit", [{"partition": 3}, {"selector": {"no": "node"}}], ids=["partition", "selector"])
def test_neither_partition_nor_selector_keeps_the_aborted_revision(limit: dict[str, Any]) -> None:
    cluster = going_back()
    cluster.edit(careful(BACK, **limit))
    cluster.settle()
    cluster.ready()
    cluster.settle()
    assert set(cluster.revisions().values()) == {"v1"}


def test_a_pause_and_an_unreachable_node_keep_it() -> None:
    cluster = going_back()
    cluster.edit(careful(BACK, paused=True))
    cluster.settle()
    assert cluster.revisions()["node-4"] == "v2"
    cluster.set_nodes(node("node-4", UNREACHABLE))
    cluster.edit(careful(BACK))
    cluster.settle()
    assert cluster.revisions()["node-4"] == "v2"
    assert cluster.revisions()["node-3"] == "v1"


@pytest.mark.parametrize("on_failure", [OnFailure(unavailable_nodes=2), None], ids=["Pause", "without onFailure"])
def test_an_edit_that_ends_the_way_back_ends_no_abort(on_failure: OnFailure | None) -> None:
    cluster = going_back()
    cluster.expect("renumber demo-v1 3", "-node-4 v2, -node-3 v2", "+node-3 v1, +node-4 v1", "")
    cluster.ready()
    cluster.expect("")
    cluster.edit(careful(rolling={"on_failure": on_failure}))
    cluster.expect("", "")
    assert "RolloutAborted" in blocked(cluster.plan)
    cluster.set_nodes(node("node-5"))
    cluster.lose("node-0-v1")
    cluster.expect("+node-0 v1, +node-5 v1", "")
    assert at(cluster)[0] == "Aborted"
    cluster.ready()
    cluster.edit(careful(rolling={"on_failure": on_failure}, said={"kruise-ds/retry": "v2"}))
    cluster.expect("", "-node-5 v1, -node-4 v1")


@pytest.mark.parametrize("action", ["Pause", "RollBack"])
def test_neither_does_on_delete_for_a_while(action: str) -> None:
    asked = replace(BACK, action=action)
    cluster = begun(careful(asked))
    assert after(cluster, 301) == "Aborted"
    cluster.edit(careful(asked, on_delete=True))
    cluster.ready()
    cluster.expect("", "")
    assert at(cluster)[0] == "Manual"
    assert said(cluster.plan, "Stalled")[0] == "False"
    cluster.edit(careful(asked))
    cluster.settle()
    assert at(cluster)[0] == "Aborted"
    assert "v2" not in [cluster.revisions()[f"node-{n}"] for n in range(3)]


def test_without_a_stable_revision_it_is_a_pause() -> None:
    cluster = begun(careful(BACK))
    status = cluster.world.daemonset.status
    assert status is not None
    assert status.rollout is not None
    lost = replace(status, rollout=replace(status.rollout, stable_revision=None))
    cluster.world = replace(cluster.world, daemonset=replace(cluster.world.daemonset, status=lost))
    assert after(cluster, 301) == "Aborted"
    cluster.expect("")
    assert cluster.revisions()["node-4"] == "v2"


def test_a_restart_changes_nothing_of_the_way_back() -> None:
    cluster = going_back()
    cluster.expect("renumber demo-v1 3", "-node-4 v2, -node-3 v2")
    cluster.world = replace(cluster.world, predecessors={}, verdicts=cluster.world.verdicts)
    cluster.expect("+node-3 v1, +node-4 v1", "")


@pytest.mark.parametrize("annotation", ["kruise-ds/retry", "kruise-ds/skip-steps"])
def test_a_person_can_bring_it_to_the_nodes_again(annotation: str) -> None:
    cluster = going_back()
    cluster.settle()
    cluster.ready()
    cluster.settle()
    cluster.edit(careful(BACK, said={annotation: "v2"}))
    cluster.step()
    cluster.settle()
    cluster.ready()
    assert at(cluster)[0] in ("Progressing", "Healthy")
    assert cluster.revisions()["node-4"] == "v2"


def test_the_next_template_is_rolled_out_as_ever() -> None:
    cluster = going_back()
    cluster.settle()
    cluster.ready()
    cluster.edit(careful(BACK, rev="v3"))
    cluster.expect("-node-4 v1, -node-3 v1")
    assert at(cluster)[0] == "Progressing"
