"""Counts what was done for each DaemonSet. Only the leader counts; the counts are dropped with their DaemonSet."""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from typing import TypeAlias

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from controller.api.daemonset import DaemonSet, DaemonSetStatus
from controller.api.wellknown import InPlaceRefusal
from controller.telemetry.daemonset_gauges import OF_DAEMONSET
from controller.telemetry.node_updates import METHODS, NodeUpdates
from controller.telemetry.process_metrics import Registry
from controller.telemetry.rollout_end import ROLLOUT_RESULTS, RolloutCourse, follow

ROLLOUTS = (30, 60, 120, 300, 600, 1200, 2400, 3600, 7200, 14400, 28800, 86400)
NODES = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800)
"""Buckets of the histograms of rollouts and of updates of nodes, in seconds."""

OF_ROLLOUTS = "kruise_daemonset_rollouts"
OF_OPERATIONS = "kruise_daemonset_pod_operations"
OF_FALLBACKS = "kruise_daemonset_in_place_fallbacks"
OUTCOMES = ("success", "error")
LabelValues: TypeAlias = tuple[str, ...]
FAMILIES: tuple[tuple[str, str, tuple[str, ...], tuple[LabelValues, ...], tuple[LabelValues, ...]], ...] = (
    (
        OF_ROLLOUTS,
        "Rollouts that ended: on every node, or replaced by an earlier or by a new revision",
        ("result",),
        tuple(product(ROLLOUT_RESULTS)),
        (),
    ),
    (
        OF_OPERATIONS,
        "Requests about pods and how they were answered; error: refused, or no answer",
        ("operation", "result"),
        tuple(product(("create", "delete", "adopt", "orphan"), OUTCOMES)),
        tuple(product(("update", "resize"), OUTCOMES)),
    ),
    (
        OF_FALLBACKS,
        "Pods that were re-created although an update in place was asked for",
        ("reason",),
        (),
        tuple((reason.value,) for reason in InPlaceRefusal),
    ),
)
"""Name, meaning, labels, and the label values with a series from the start: for every DaemonSet, and only for those
that ask, or asked, for updates in place."""


class Tally(Collector):
    """Counts by DaemonSet uid, shown for those that `current` yields (none on a standby), each from 0."""

    def __init__(self, registry: Registry) -> None:
        self._counts: dict[str, Count[LabelValues]] = {}
        self._courses: dict[str, RolloutCourse] = {}
        self._created: dict[str, str] = {}
        self._current: Callable[[], Iterable[DaemonSet]] = tuple
        self._clock: Callable[[], float] = float
        self._durations = registry.histogram(
            "kruise_ds_rollout_duration_seconds",
            "Start to end, pauses included",
            ROLLOUTS,
            result=ROLLOUT_RESULTS,
        )
        self._rests = registry.histogram(
            "kruise_ds_rollout_paused_duration_seconds",
            "Of these, paused or held",
            ROLLOUTS,
            result=ROLLOUT_RESULTS,
        )
        nodes = registry.histogram(
            "kruise_ds_node_update_duration_seconds",
            "One node: from the decision until its pod of the new revision is available",
            NODES,
            method=METHODS,
        )
        self.updates = NodeUpdates(lambda method, seconds: nodes.labels(method).observe(seconds))

    def show(self, current: Callable[[], Iterable[DaemonSet]], clock: Callable[[], float]) -> None:
        """Show these DaemonSets. `clock` is that of the updates of nodes."""
        self._current, self._clock = current, clock

    def count(self, uid: str, family: str, *labels: str) -> None:
        """Add one to the family (`OF_…`) with these label values."""
        self._counts.setdefault(uid, Count())[family, *labels] += 1

    def made_revision(self, uid: str, revision_hash: str) -> None:
        """Note a newly stored revision: a rollout to it is no rollback."""
        self._created[uid] = revision_hash

    def wrote_status(self, uid: str, before: DaemonSetStatus | None, after: DaemonSetStatus) -> None:
        """Note a successful write of a status by us."""
        is_new = self._created.get(uid) == after.update_revision
        if is_new:
            del self._created[uid]  # it is new only once: a later return to it is a rollback
        course = self._courses.get(uid, RolloutCourse())
        self._courses[uid], end, rest = follow(course, before, after, is_new=is_new, now=self._clock())
        if end is None:
            return
        self.count(uid, OF_ROLLOUTS, end.result)
        self._durations.labels(end.result).observe(end.seconds)
        self._rests.labels(end.result).observe(rest)

    def forget(self, uid: str) -> None:
        """Forget a DaemonSet that is gone."""
        for known in (self._counts, self._courses, self._created):
            known.pop(uid, None)
        self.updates.forget(uid)

    def collect(self) -> Iterator[Metric]:
        rows: list[tuple[list[str], bool, Mapping[LabelValues, int]]] = [
            ([one.namespace, one.name], one.in_place, self._counts.get(one.uid, {})) for one in self._current()
        ]
        for name, meaning, labels, children, more in FAMILIES:
            family = CounterMetricFamily(name, meaning, labels=(*OF_DAEMONSET, *labels))
            for whose, in_place, counts in rows:
                for child in (*children, *(one for one in more if in_place or (name, *one) in counts)):
                    family.add_metric([*whose, *child], counts.get((name, *child), 0))
            yield family

    def settle(self) -> None:
        """End updates of nodes that have finished since the last scrape; called before each scrape."""
        self.updates.settle(self._clock())
