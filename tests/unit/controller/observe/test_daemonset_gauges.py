"""The state of each DaemonSet as metrics: which there are, and what they say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace
from prometheus_client import Metric

from controller.api.daemonset import (
    Check,
    CheckRecord,
    DaemonSet,
    DaemonSetStatus,
    LifecycleHook,
    OnFailure,
    Phase,
    Rollout,
    RolloutStep,
    UnreachableNodes,
)
from controller.observe.daemonset_gauges import DaemonSetSample, paused_since, sample_daemonsets
from controller.observe.metrics import Metrics
from controller.planner.plan import Plan, plan
from controller.planner.summary import Summary
from controller.planner.world import ClockOffset
from controller.reconcile.state import DaemonSetState, DaemonSetStates
from controller.runtime.clock import Instant
from tests.beds.stores import caches_of
from tests.beds.worlds import NOW, ago, ds, everywhere, node, pod, prepared, world

ONLY_BY_A_PASS = {
    "spec_strategy_partition",
    "spec_strategy_rollingupdate_max_surge",
    "spec_strategy_rollingupdate_max_unavailable",
    "rollout_updating_nodes",
    "rollout_failed_nodes",
    "rollout_blocked",
    "rollout_unplanned_updated_nodes",
    "leaving_nodes",
    "preparing_delete_pods",
    "preparing_delete_overdue_pods",
    "rollout_zone_nodes",
}

HOOK = LifecycleHook(labels_handler={"hold": "yes"})
STATUS = msgspec.convert(
    {
        "observedGeneration": 2,
        "desiredNumberScheduled": 7,
        "updateRevision": "v2",
        "rollout": {
            "phase": "Held",
            "target": 4,
            "done": 3,
            "startTime": "1970-01-01T00:01:00Z",
            "lastProgressTime": "1970-01-01T00:02:00Z",
        },
    },
    DaemonSetStatus,
)


PROGRESSIVE = {
    "unreachable_nodes": UnreachableNodes(leave_out=1),
    "steps": (RolloutStep(nodes=5, soak="1m"),),
    "on_failure": OnFailure(restarts=3),
    "checks": (Check(name="errors", query="x"), Check(name="slow", query="y")),
}


def shown(daemonset: DaemonSet | None = None, **fields: Any) -> DaemonSetSample:
    """As after a pass over five nodes in which the new pod of one crashes."""
    made = ds("v2", partition="60%", hook=HOOK, rolling=PROGRESSIVE)
    daemonset = daemonset or replace(made, status=STATUS, created=30.0, generation=3)
    nodes = [node(f"node-{number}", labels={"topology.kubernetes.io/zone": "east"}) for number in range(5)]
    pods = [*everywhere(4), pod("node-4", "v2", ready=None, created=ago(9))]
    seen = plan(world(daemonset, nodes=nodes, pods=pods)).summary
    return DaemonSetSample(**{"daemonset": daemonset, "summary": seen, **fields})


def exposed(*current: DaemonSetSample, zones: bool = True) -> dict[str, Metric]:
    """Name without `kruise_daemonset_` to the family, of all gauges."""
    metrics = Metrics(version="0.1.0")
    metrics.watch_daemonsets(lambda: current, zones=zones)
    gauges = {family.name: family for family in metrics.registry.collect() if family.type == "gauge"}
    start = "kruise_daemonset_"
    return {name.removeprefix(start): family for name, family in gauges.items() if name.startswith(start)}


def value(found: Mapping[str, Metric], name: str, **labels: str) -> float | None:
    wanted = {"namespace": "default", "daemonset": "demo", **labels}
    return next((sample.value for sample in found[name].samples if sample.labels == wanted), None)


def nonzero(found: Mapping[str, Metric], name: str, label: str) -> dict[str, float]:
    return {sample.labels[label]: sample.value for sample in found[name].samples if sample.value}


def test_what_the_object_and_its_status_say() -> None:
    found = exposed(shown(paused_since=90.0))
    numbers = {
        "created": 30,
        "metadata_generation": 3,
        "status_observed_generation": 2,
        "status_desired_number_scheduled": 7,
        "rollout_target_nodes": 4,
        "rollout_updated_available_nodes": 3,
        "rollout_started_timestamp_seconds": 60,
        "rollout_last_progress_timestamp_seconds": 120,
        "rollout_paused_since_timestamp_seconds": 90,
    }
    assert {name: value(found, name) for name in numbers} == numbers
    assert nonzero(found, "rollout_phase", "phase") == {"Held": 1}
    info = {"strategy_type": "RollingUpdate", "rolling_update_type": "Standard", "update_revision": "v2"}
    assert value(found, "info", **info) == 1


def test_an_abort_is_shown_as_long_as_it_lasts_also_without_on_failure() -> None:
    record = Rollout(phase="Aborted", aborted_revision="v2")
    found = exposed(shown(replace(ds("v2"), status=DaemonSetStatus(rollout=record))))
    assert value(found, "rollout_aborted") == 1
    assert nonzero(found, "rollout_phase", "phase") == {"Aborted": 1}


def test_the_checks_of_the_spec() -> None:
    record = Rollout(checks=(CheckRecord(name="slow", state="Failing"), CheckRecord(name="gone", state="Failing")))
    made = ds("v2", rolling=PROGRESSIVE)
    found = exposed(shown(replace(made, status=DaemonSetStatus(rollout=record))))
    assert {tuple(one.labels.values())[2:]: one.value for one in found["rollout_check"].samples} == {
        ("errors", "Failing"): 0,
        ("errors", "Unanswered"): 0,
        ("slow", "Failing"): 1,
        ("slow", "Unanswered"): 0,
    }
    assert exposed(shown(ds("v2")))["rollout_check"].samples == []


def test_pods_held_by_a_hook_are_shown_only_where_there_is_a_hook() -> None:
    held = [prepared(pod("node-0", labels={"hold": "yes"}), since=ago(3600)), pod("node-1")]
    seen = plan(world(ds("v2", hook=HOOK), nodes=2, pods=held)).summary
    found = exposed(DaemonSetSample(daemonset=ds("v2", hook=HOOK), summary=seen))
    assert value(found, "preparing_delete_pods") == 1
    assert value(found, "preparing_delete_overdue_pods") == 1
    assert exposed(shown(ds("v2")))["preparing_delete_pods"].samples == []


def test_what_only_a_pass_knows() -> None:
    found = exposed(shown())
    numbers = {
        "spec_strategy_partition": 3,
        "spec_strategy_rollingupdate_max_surge": 0,
        "spec_strategy_rollingupdate_max_unavailable": 1,
        "rollout_updating_nodes": 1,
        "rollout_unplanned_updated_nodes": 0,
    }
    assert {name: value(found, name) for name in numbers} == numbers
    assert nonzero(found, "rollout_blocked", "reason") == {"PartitionReached": 1, "MaxUnavailableInUse": 1}
    assert nonzero(found, "rollout_failed_nodes", "reason") == {}
    assert nonzero(found, "rollout_zone_nodes", "state") == {"updating": 1, "old": 4}
    assert value(found, "rollout_zone_nodes", zone="east", state="old") == 4


def test_before_the_first_pass_only_the_status_is_exposed() -> None:
    found = exposed(DaemonSetSample(daemonset=ds(rolling=PROGRESSIVE)))
    assert {name for name, family in found.items() if not family.samples} == ONLY_BY_A_PASS
    assert nonzero(found, "rollout_phase", "phase") == {"Pending": 1}
    assert value(found, "rollout_started_timestamp_seconds") == 0


def test_on_delete_has_no_way_of_rolling() -> None:
    found = exposed(shown(ds(on_delete=True)))
    assert nonzero(found, "rollout_blocked", "reason") == {}, "that is what `info` says"
    assert value(found, "info", strategy_type="OnDelete", rolling_update_type="", update_revision="") == 1


def test_what_is_being_deleted_is_terminating_whatever_was_written_last() -> None:
    found = exposed(DaemonSetSample(daemonset=replace(ds(terminating=True), status=STATUS)))
    assert nonzero(found, "rollout_phase", "phase") == {Phase.TERMINATING: 1}


def test_nodes_without_a_zone_have_one_of_their_own() -> None:
    found = exposed(DaemonSetSample(daemonset=ds(), summary=plan(world(pods=everywhere(5))).summary))
    assert value(found, "rollout_zone_nodes", zone="none", state="updated") == 5


def test_zones_can_be_left_out() -> None:
    assert exposed(shown()).keys() - exposed(shown(), zones=False).keys() == {"rollout_zone_nodes"}


def test_without_daemonsets_there_are_no_series() -> None:
    assert [name for name, family in exposed().items() if family.samples] == []


def of_phase(phase: Phase, since: float) -> DaemonSetStatus:
    moment = f"2027-01-15T08:{int(since) // 60:02}:{int(since) % 60:02}Z"
    return msgspec.convert({"rollout": {"phase": phase.value, "lastTransitionTime": moment}}, DaemonSetStatus)


def test_since_when_it_is_paused() -> None:
    state, paused = DaemonSetState(), ds("v2", paused=True)
    assert paused_since(paused, state) == 0, "no pass has seen it, and there is no record"
    state.after_plan(paused, Plan(), Instant(NOW + 100, 0.0), ClockOffset())
    state.after_plan(paused, Plan(), Instant(NOW + 200, 0.0), ClockOffset())
    assert paused_since(paused, state) == NOW + 100
    recorded = replace(paused, status=of_phase(Phase.PAUSED, 50))
    assert paused_since(recorded, state) == NOW + 50, "the record is older than this process"
    assert paused_since(recorded, DaemonSetState()) == NOW + 50
    late = replace(paused, status=of_phase(Phase.PAUSED, 150))
    assert paused_since(late, state) == NOW + 100, "it was paused before there was anything to hold up"
    healthy = replace(paused, status=of_phase(Phase.HEALTHY, 50))
    assert paused_since(healthy, state) == NOW + 100, "that record is of something else"
    assert paused_since(ds("v2"), state) == 0
    state.after_plan(ds("v2"), Plan(), Instant(NOW + 300, 0.0), ClockOffset())
    state.after_plan(paused, Plan(), Instant(NOW + 400, 0.0), ClockOffset())
    assert paused_since(paused, state) == NOW + 400, "paused anew"


def test_of_what_goes_only_what_the_object_says_is_shown() -> None:
    states, seen = DaemonSetStates(), shown().summary
    assert isinstance(seen, Summary)
    states.of("uid-ads").after_plan(ds(), Plan(summary=seen), Instant(NOW, 0.0), ClockOffset())
    (there,) = sample_daemonsets(caches_of([ds()]), states, NOW)
    assert there.summary == seen
    (late,) = sample_daemonsets(caches_of([ds()]), states, NOW + 3600)
    assert late.summary is not None
    assert late.summary.failed["NotReady"] == 1, "nobody has looked again, but patience has ended"
    (going,) = sample_daemonsets(caches_of([ds(terminating=True)]), states, NOW)
    assert going.summary is None
    states.of("uid-ads").after_plan(ds(), Plan(summary=None), Instant(NOW, 0.0), ClockOffset())
    (unusable,) = sample_daemonsets(caches_of([ds()]), states, NOW)
    assert unusable.summary is None, "a spec without a meaning: the numbers of the former one would mislead"
    assert list(sample_daemonsets(caches_of(), states, NOW)) == []
