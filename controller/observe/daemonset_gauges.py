"""The gauges of each DaemonSet, read at each scrape.

Metrics of kruise-state-metrics keep their names; two of them have a number in a label there and in the value here. An
enumeration has one series per value, 0 or 1. Values that only a pass knows (numeric limits, failures, blocks, zones)
appear with this process's first pass, and are absent while the spec is unusable or the DaemonSet is being deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from controller.api.daemonset import CheckState, DaemonSet, DaemonSetStatus, Phase, Rollout, RolloutStep
from controller.api.formats import seconds
from controller.api.objects import Value, epoch
from controller.planner.summary import Summary
from controller.reconcile.caches import Caches
from controller.reconcile.state import DaemonSetState, DaemonSetStates

OF_DAEMONSET = ("namespace", "daemonset")
WITHOUT_ZONE = "none"
"""Zone of nodes without a zone label."""

OF_STEPS = (Phase.SOAKING, Phase.AWAITING_APPROVAL)
"""Phases that only a rollout with steps has."""

Samples: TypeAlias = Iterable[tuple[tuple[str, ...], float]]
"""Values of the labels after `OF_DAEMONSET`, and the number."""


class DaemonSetSample(Value):
    daemonset: DaemonSet
    summary: Summary | None = None
    """None if no pass has seen it yet or its spec is unusable."""
    now: float = 0.0
    """Seconds since 1970."""
    paused_since: float = 0.0
    """Seconds since 1970; 0 if it is not paused."""

    @property
    def status(self) -> DaemonSetStatus:
        return self.daemonset.status or DaemonSetStatus()

    @property
    def may_abort(self) -> bool:
        rolling = self.daemonset.rolling_update
        asked = rolling is not None and rolling.on_failure is not None
        return asked or self.rollout.aborted_revision is not None  # lasts after onFailure is removed

    @property
    def steps(self) -> tuple[RolloutStep, ...]:
        rolling = self.daemonset.rolling_update
        return rolling.steps if rolling is not None else ()

    @property
    def rollout(self) -> Rollout:
        return self.status.rollout or Rollout()


def sample_daemonsets(caches: Caches, states: DaemonSetStates, now: float) -> Iterator[DaemonSetSample]:
    """`now` is in seconds since 1970. Call between passes, on their event loop."""
    for daemonset in caches.daemonsets.values():
        state = states.of(daemonset.uid)
        summary = state.summary.at(now) if state.summary is not None and not daemonset.terminating else None
        yield DaemonSetSample(
            daemonset=daemonset, summary=summary, now=now, paused_since=paused_since(daemonset, state)
        )


def paused_since(daemonset: DaemonSet, state: DaemonSetState) -> float:
    """Seconds since 1970; 0 if not paused or unknown. The status keeps the pause of an unfinished rollout across
    restarts; any other pause is known only to this process."""
    if not daemonset.paused:
        return 0.0
    record = daemonset.status.rollout if daemonset.status is not None else None
    recorded = epoch(record.last_transition_time) if record is not None and record.phase == Phase.PAUSED else None
    return min(filter(None, (state.paused_since, recorded)), default=0.0)


class Family(NamedTuple):
    name: str
    """Without the common prefix `kruise_daemonset_`."""
    meaning: str
    read: Callable[[DaemonSetSample], Samples]
    labels: tuple[str, ...] = ()


def _gauge(name: str, path: str, meaning: str) -> Family:
    """The number at this attribute of the sample, such as `rollout.target`."""
    number = attrgetter(path)
    return Family(name, meaning, lambda sample: [((), number(sample))])


def _time(name: str, path: str, meaning: str) -> Family:
    """The time at this attribute in seconds since 1970; 0 if none."""
    stamp = attrgetter(path)
    return Family(name, meaning, lambda sample: [((), epoch(stamp(sample)) or 0.0)])


def _of_pass(name: str, path: str, meaning: str) -> Family:
    number = attrgetter(path)
    return _series_of_pass(name, meaning, lambda summary: [((), number(summary))])


def _series_of_pass(
    name: str, meaning: str, read: Callable[[Summary], Samples], labels: tuple[str, ...] = ()
) -> Family:
    return Family(name, meaning, lambda sample: () if sample.summary is None else read(sample.summary), labels)


def _info(sample: DaemonSetSample) -> Samples:
    rolling = sample.daemonset.rolling_update
    how = (rolling.rolling_update_type or "Standard") if rolling is not None else ""
    return [
        ((sample.daemonset.spec.update_strategy.type or "RollingUpdate", how, sample.status.update_revision), 1.0)
    ]


def _phases(sample: DaemonSetSample) -> Samples:
    """The phase as written, or one that no status shows: Terminating, or Pending if never handled."""
    now = Phase.TERMINATING if sample.daemonset.terminating else sample.rollout.phase or Phase.PENDING
    absent = (*(() if sample.steps else OF_STEPS), *(() if sample.may_abort else (Phase.ABORTED,)))
    return [((phase.value,), float(phase == now)) for phase in Phase if phase not in absent]


def _checks(sample: DaemonSetSample) -> Samples:
    """Only where the spec has checks."""
    rolling = sample.daemonset.rolling_update
    states = {check.name: check.state for check in sample.rollout.checks or ()}
    for check in rolling.checks if rolling is not None else ():
        for state in CheckState:
            yield (check.name, state.value), float(states.get(check.name) == state)


def _left_out(sample: DaemonSetSample) -> Samples:
    """Only where unreachableNodes is set."""
    rolling = sample.daemonset.rolling_update
    asked = rolling is not None and rolling.unreachable_nodes is not None
    return [((), sample.rollout.left_out)] if asked else []


def _step(name: str, meaning: str, read: Callable[[DaemonSetSample], float | None]) -> Family:
    """Only where the spec has steps; 0 while none applies."""
    return Family(f"rollout_{name}", meaning, lambda sample: [((), read(sample) or 0.0)] if sample.steps else ())


def _soak_seconds_left(sample: DaemonSetSample) -> float:
    reached, step = epoch(sample.rollout.step_reached_time), sample.rollout.step
    if reached is None or step is None or sample.rollout.phase != Phase.SOAKING or step > len(sample.steps):
        return 0.0
    soak = sample.steps[step - 1].soak
    return max(reached + (seconds(soak) if soak else 0.0) - sample.now, 0.0)


def _zones(summary: Summary) -> Samples:
    for zone, states in summary.zones.items():
        for state, number in states.items():
            yield (zone or WITHOUT_ZONE, state), number


STATE: tuple[Family, ...] = (
    _gauge("created", "daemonset.created", "When it was created, in seconds since 1970"),
    _gauge("metadata_generation", "daemonset.generation", "Generation of the spec"),
    *(
        _gauge(f"status_{field}", f"status.{field}", meaning)
        for field, meaning in (
            ("observed_generation", "Generation that the controller has handled"),
            ("desired_number_scheduled", "Nodes that should run the pod"),
            ("current_number_scheduled", "Nodes that should run the pod and do"),
            ("number_ready", "Nodes that should run the pod and have a Ready one"),
            ("number_available", "Nodes that should run the pod and have an available one"),
            ("number_unavailable", "Nodes that should run the pod and have none available"),
            ("number_misscheduled", "Nodes that run the pod and should not"),
            ("updated_number_scheduled", "Nodes that should run the pod and run the update revision"),
        )
    ),
    Family(
        "info",
        "Always 1; the labels describe the DaemonSet",
        _info,
        ("strategy_type", "rolling_update_type", "update_revision"),
    ),
    Family(
        "rollout_phase",
        "1 for the current phase; Soaking, AwaitingApproval and Aborted only where the spec asks for them",
        _phases,
        ("phase",),
    ),
    _gauge(
        "rollout_target_nodes",
        "rollout.target",
        "Nodes that may have the update revision now, or could if it were not paused",
    ),
    _gauge(
        "rollout_updated_available_nodes",
        "rollout.done",
        "Of the target, nodes with an available pod of the update revision and no old one",
    ),
    _step("step", "The step that the rollout has come to, from 1", lambda sample: sample.rollout.step),
    _step("steps", "The number of its steps", lambda sample: sample.rollout.steps),
    _step("soak_seconds_left", "Seconds until the soak of the step ends, 0 outside of one", _soak_seconds_left),
    Family(
        "rollout_aborted",
        "1 while the rollout is aborted",
        lambda sample: [((), float(sample.rollout.aborted_revision is not None))] if sample.may_abort else (),
    ),
    Family(
        "rollout_check",
        "1 while a check of the open step fails or has no answer",
        _checks,
        ("check", "state"),
    ),
    Family("rollout_left_out_nodes", "Unreachable nodes that the rollout does not wait for", _left_out),
    _time(
        "rollout_started_timestamp_seconds", "rollout.start_time", "Start of the current or last rollout, 0 if none"
    ),
    _time(
        "rollout_last_progress_timestamp_seconds",
        "rollout.last_progress_time",
        "Last time a rollout made progress, from which its deadline counts; 0 if none did",
    ),
    _gauge(
        "rollout_paused_since_timestamp_seconds",
        "paused_since",
        "Since when it is paused, as far as is known; 0 while it is not",
    ),
    _of_pass(
        "spec_strategy_partition",
        "budget.partition",
        "Nodes that stay on the old revision: the partition as a number",
    ),
    _of_pass("spec_strategy_rollingupdate_max_surge", "budget.max_surge", "maxSurge as a number of nodes"),
    _of_pass(
        "spec_strategy_rollingupdate_max_unavailable", "budget.max_unavailable", "maxUnavailable as a number of nodes"
    ),
    _of_pass(
        "rollout_updating_nodes", "updating", "Nodes whose new pod may still become available, or is about to be made"
    ),
    _series_of_pass(
        "rollout_failed_nodes",
        "Nodes whose pod of the update revision will not recover by itself, or has ended",
        lambda summary: [((reason,), number) for reason, number in summary.failed.items()],
        ("reason",),
    ),
    _series_of_pass(
        "rollout_blocked",
        "1 while this keeps nodes from the update revision",
        lambda summary: [((reason,), float(holds)) for reason, holds in summary.blocked.items()],
        ("reason",),
    ),
    _of_pass(
        "rollout_unplanned_updated_nodes",
        "unplanned",
        "Nodes on the update revision beyond what partition, selector and step allow",
    ),
    _of_pass(
        "leaving_nodes",
        "misscheduled_to_delete",
        "Of the misscheduled, nodes whose pod has to go: no taint NoSchedule lets it stay",
    ),
    _series_of_pass(
        "preparing_delete_pods",
        "Pods that are prepared for their deletion and held by the preDelete hook",
        lambda summary: [] if summary.preparing is None else [((), summary.preparing)],
    ),
    _series_of_pass(
        "preparing_delete_overdue_pods",
        "Of these, those that have been so for longer than an hour, or than the DaemonSet's annotation says",
        lambda summary: [] if summary.preparing is None else [((), summary.overdue)],
    ),
)

ZONES = _series_of_pass(
    "rollout_zone_nodes", "Nodes that should run the pod, by zone and state", _zones, ("zone", "state")
)


class DaemonSetCollector(Collector):
    def __init__(self, current: Callable[[], Iterable[DaemonSetSample]], *, zones: bool = True) -> None:
        """`current` yields the DaemonSets to show, none on a standby."""
        self._current, self._families = current, (*STATE, ZONES) if zones else STATE

    def collect(self) -> Iterator[Metric]:
        samples = tuple(self._current())
        for family in self._families:
            labels = (*OF_DAEMONSET, *family.labels)
            gauge = GaugeMetricFamily(f"kruise_daemonset_{family.name}", family.meaning, labels=labels)
            for sample in samples:
                for values, number in family.read(sample):
                    gauge.add_metric((sample.daemonset.namespace, sample.daemonset.name, *values), number)
            yield gauge
