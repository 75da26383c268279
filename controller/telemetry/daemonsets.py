"""The metrics that tell the state of every DaemonSet, read off at a scrape: they cost nothing until somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from controller.api.daemonset import DaemonSet, DaemonSetStatus, Phase, Rollout
from controller.api.meta import epoch

_NO_STATUS = DaemonSetStatus()

STATE: tuple[tuple[str, str, Callable[[DaemonSet, DaemonSetStatus], float]], ...] = (
    ("metadata_generation", "Generation of the spec", lambda ds, _: ds.generation),
    (
        "status_observed_generation",
        "Generation that the controller has handled",
        lambda _, s: s.observed_generation,
    ),
    (
        "status_desired_number_scheduled",
        "Nodes that should run the pod",
        lambda _, s: s.desired_number_scheduled,
    ),
    ("status_current_number_scheduled", "Of these, nodes that run it", lambda _, s: s.current_number_scheduled),
    ("status_number_ready", "Of these, Ready", lambda _, s: s.number_ready),
    ("status_number_available", "Of these, Ready for minReadySeconds", lambda _, s: s.number_available),
    ("status_number_unavailable", "Desired minus available", lambda _, s: s.number_unavailable),
    ("status_number_misscheduled", "Nodes that run it and should not", lambda _, s: s.number_misscheduled),
    (
        "status_updated_number_scheduled",
        "Nodes that run the update revision",
        lambda _, s: s.updated_number_scheduled,
    ),
)
"""Names as in kruise-state-metrics, so that its dashboards keep working."""

_NO_ROLLOUT = Rollout()

ROLLOUT: tuple[tuple[str, str, Callable[[Rollout], float]], ...] = (
    ("target_nodes", "Nodes that may have the update revision now", lambda r: r.target),
    ("updated_available_nodes", "Of these, nodes with an available pod of it and no old one", lambda r: r.done),
    (
        "started_timestamp_seconds",
        "Start of the current or last rollout, 0 if none",
        lambda r: epoch(r.start_time) or 0,
    ),
    (
        "last_progress_timestamp_seconds",
        "Since when the deadline of the rollout counts, 0 if there was none",
        lambda r: epoch(r.last_progress_time) or 0,
    ),
)


OF_DAEMONSET = ("namespace", "daemonset")


class DaemonSetCollector(Collector):
    def __init__(self, current: Callable[[], Iterable[DaemonSet]]) -> None:
        self._current = current

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        rows = [(ds, ds.status or _NO_STATUS, [ds.namespace, ds.name]) for ds in self._current()]
        for name, meaning, read in STATE:
            family = GaugeMetricFamily(f"kruise_daemonset_{name}", meaning, labels=OF_DAEMONSET)
            for daemonset, status, labels in rows:
                family.add_metric(labels, read(daemonset, status))
            yield family
        for name, meaning, tell in ROLLOUT:
            family = GaugeMetricFamily(f"kruise_daemonset_rollout_{name}", meaning, labels=OF_DAEMONSET)
            for _, status, labels in rows:
                family.add_metric(labels, tell(status.rollout or _NO_ROLLOUT))
            yield family
        phases = GaugeMetricFamily(
            "kruise_daemonset_rollout_phase", "1 for the current one of the phases", labels=(*OF_DAEMONSET, "phase")
        )
        for daemonset, _, labels in rows:
            for phase in Phase:
                phases.add_metric([*labels, phase.value], float(phase == _phase(daemonset)))
        yield phases
        conditions = GaugeMetricFamily(
            "kruise_daemonset_status_condition",
            "1 for the current status of each condition",
            labels=(*OF_DAEMONSET, "condition", "status"),
        )
        for _, status, labels in rows:
            for condition in status.conditions or ():
                kind, now = str(condition.get("type", "")), str(condition.get("status", "")).lower()
                for value in ("true", "false", "unknown"):
                    conditions.add_metric([*labels, kind, value], float(now == value))
        yield conditions


def _phase(daemonset: DaemonSet) -> str:
    """As it was written; what goes or was never looked at has no status that says so."""
    if daemonset.dying:
        return Phase.TERMINATING
    rollout = daemonset.status.rollout if daemonset.status is not None else None
    return rollout.phase if rollout is not None else Phase.PENDING
