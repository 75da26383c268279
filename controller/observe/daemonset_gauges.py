"""The metrics of every DaemonSet. They are read at each scrape, and cost nothing in between.

Names are those of kruise-state-metrics if it has the metric, so that its dashboards work. Two of its series have
their number in a label; ours have it in the value. An enumeration has one series for each of its values, 0 or 1.
Nothing is shown twice: conditions are in the phase and the reasons, the type of the strategy is in `info`.

Values from the status are there at once. Values that only a pass knows (limits as numbers, failures, blocks, zones)
appear with the first pass of this process, and disappear while a spec is unusable or the DaemonSet is being deleted:
no value is better than an old one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from controller.api.daemonset import DaemonSet, DaemonSetStatus, Phase, Rollout
from controller.api.objects import Value, epoch
from controller.planner.blockers import BlockReason
from controller.planner.summary import Summary
from controller.reconcile.caches import Caches
from controller.reconcile.state import DaemonSetState, DaemonSetStates

OF_DAEMONSET = ("namespace", "daemonset")
WITHOUT_ZONE = "none"
"""The zone under which nodes without a zone label are counted."""

TOLD = (BlockReason.ON_DELETE,)
"""Block reasons that are not shown, because `info` has them: the type of the strategy."""

Samples: TypeAlias = Iterable[tuple[tuple[str, ...], float]]
"""Values of the labels after `OF_DAEMONSET`, and the number."""


class MeasuredDaemonSet(Value):
    """One DaemonSet at the moment of a scrape: the object, and what only a pass over it knows."""

    daemonset: DaemonSet
    summary: Summary | None = None
    """None: no pass has seen it yet, or its spec is unusable."""
    paused_since: float = 0.0
    """Since when it is paused (seconds since 1970); 0: it is not."""

    @property
    def status(self) -> DaemonSetStatus:
        return self.daemonset.status or DaemonSetStatus()

    @property
    def rollout(self) -> Rollout:
        return self.status.rollout or Rollout()


def measured(caches: Caches, states: DaemonSetStates, now: float) -> Iterator[MeasuredDaemonSet]:
    """Every DaemonSet with its state; `now` is in seconds since 1970. Call it between passes, on their event loop."""
    for daemonset in caches.daemonsets.values():
        state = states.of(daemonset.uid)
        summary = state.summary.at(now) if state.summary is not None and not daemonset.dying else None
        yield MeasuredDaemonSet(daemonset=daemonset, summary=summary, paused_since=paused_since(daemonset, state))


def paused_since(daemonset: DaemonSet, state: DaemonSetState) -> float:
    """Since when it is paused (seconds since 1970); 0: it is not, or not known. The status records the pause of an
    unfinished rollout, so it is known after a restart; a pause without anything to roll out is known only to this
    process."""
    if not daemonset.paused:
        return 0.0
    record = daemonset.status.rollout if daemonset.status is not None else None
    recorded = epoch(record.last_transition_time) if record is not None and record.phase == Phase.PAUSED else None
    return min(filter(None, (state.paused_since, recorded)), default=0.0)


class Family(NamedTuple):
    """One metric: its name, its labels, and how its values are read."""

    name: str
    """The name without the prefix `kruise_daemonset_` that all have."""
    meaning: str
    read: Callable[[MeasuredDaemonSet], Samples]
    labels: tuple[str, ...] = ()


def _number(name: str, meaning: str, read: Callable[[MeasuredDaemonSet], float]) -> Family:
    return Family(name, meaning, lambda shown: [((), read(shown))])


def _seen(
    name: str, meaning: str, read: Callable[[Summary], Samples | float], labels: tuple[str, ...] = ()
) -> Family:
    """A metric that only a pass knows."""

    def samples(shown: MeasuredDaemonSet) -> Samples:
        if shown.summary is None:
            return ()
        found = read(shown.summary)
        return [((), found)] if isinstance(found, int | float) else found

    return Family(name, meaning, samples, labels)


def _info(shown: MeasuredDaemonSet) -> Samples:
    rolling = shown.daemonset.rolling_update
    how = (rolling.rolling_update_type or "Standard") if rolling is not None else ""
    return [((shown.daemonset.spec.update_strategy.type or "RollingUpdate", how, shown.status.update_revision), 1.0)]


def _phases(shown: MeasuredDaemonSet) -> Samples:
    """The phase as it was written; no status says that a DaemonSet is being deleted, or was never handled."""
    now = Phase.TERMINATING if shown.daemonset.dying else shown.rollout.phase or Phase.PENDING
    return [((phase.value,), float(phase == now)) for phase in Phase]


def _zones(summary: Summary) -> Samples:
    for zone, states in summary.zones.items():
        for state, number in states.items():
            yield (zone or WITHOUT_ZONE, state), number


STATE: tuple[Family, ...] = (
    _number("created", "When it was created, in seconds since 1970", lambda shown: shown.daemonset.created),
    _number("metadata_generation", "Generation of the spec", lambda shown: shown.daemonset.generation),
    *(
        _number(f"status_{field}", meaning, attrgetter(f"status.{field}"))
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
    Family("rollout_phase", "1 for the current one of the nine phases", _phases, ("phase",)),
    _number(
        "rollout_target_nodes",
        "Nodes that may have the update revision now, or could if it were not paused",
        lambda shown: shown.rollout.target,
    ),
    _number(
        "rollout_updated_available_nodes",
        "Of the target, nodes with an available pod of the update revision and no old one",
        lambda shown: shown.rollout.done,
    ),
    _number(
        "rollout_started_timestamp_seconds",
        "Start of the current or last rollout, 0 if none",
        lambda shown: epoch(shown.rollout.start_time) or 0.0,
    ),
    _number(
        "rollout_last_progress_timestamp_seconds",
        "Last time a rollout made progress, from which its deadline counts; 0 if none did",
        lambda shown: epoch(shown.rollout.last_progress_time) or 0.0,
    ),
    _number(
        "rollout_paused_since_timestamp_seconds",
        "Since when it is paused, as far as is known; 0 while it is not",
        lambda shown: shown.paused_since,
    ),
    _seen(
        "spec_strategy_partition",
        "Nodes that stay on the old revision: the partition as a number",
        lambda summary: summary.budget.partition,
    ),
    _seen(
        "spec_strategy_rollingupdate_max_surge",
        "maxSurge as a number of nodes",
        lambda summary: summary.budget.max_surge,
    ),
    _seen(
        "spec_strategy_rollingupdate_max_unavailable",
        "maxUnavailable as a number of nodes",
        lambda summary: summary.budget.max_unavailable,
    ),
    _seen(
        "rollout_updating_nodes",
        "Nodes whose new pod may still become available, or is about to be made",
        lambda summary: summary.updating,
    ),
    _seen(
        "rollout_failed_nodes",
        "Nodes whose pod of the update revision will not recover by itself, or has ended",
        lambda summary: [((reason,), number) for reason, number in summary.failed.items()],
        ("reason",),
    ),
    _seen(
        "rollout_blocked",
        "1 while this keeps nodes from the update revision",
        lambda summary: [((reason,), float(there)) for reason, there in summary.blocks.items() if reason not in TOLD],
        ("reason",),
    ),
    _seen(
        "rollout_unplanned_updated_nodes",
        "Nodes on the update revision beyond what partition and selector allow",
        lambda summary: summary.unplanned,
    ),
    _seen(
        "leaving_nodes",
        "Of the misscheduled, nodes whose pod has to go: no taint NoSchedule lets it stay",
        lambda summary: summary.leaving,
    ),
    _seen(
        "preparing_delete_pods",
        "Pods that are prepared for their deletion and held by the preDelete hook",
        lambda summary: [] if summary.preparing is None else [((), summary.preparing)],
    ),
    _seen(
        "preparing_delete_overdue_pods",
        "Of these, those that have been so for longer than an hour, or than the DaemonSet's annotation says",
        lambda summary: [] if summary.preparing is None else [((), summary.overdue)],
    ),
)

ZONES = _seen("rollout_zone_nodes", "Nodes that should run the pod, by zone and state", _zones, ("zone", "state"))


class DaemonSetCollector(Collector):
    def __init__(self, current: Callable[[], Iterable[MeasuredDaemonSet]], *, zones: bool = True) -> None:
        """`current` yields the DaemonSets to show: none on a standby."""
        self._current, self._families = current, (*STATE, ZONES) if zones else STATE

    def collect(self) -> Iterator[Metric]:
        rows = [((one.daemonset.namespace, one.daemonset.name), one) for one in self._current()]
        for family in self._families:
            labels = (*OF_DAEMONSET, *family.labels)
            gauge = GaugeMetricFamily(f"kruise_daemonset_{family.name}", family.meaning, labels=labels)
            for names, shown in rows:
                for values, number in family.read(shown):
                    gauge.add_metric((*names, *values), number)
            yield gauge
