"""Counters of each DaemonSet: ended rollouts, pod requests, durations of node updates. Only the leader counts."""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Literal, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace
from prometheus_client import Histogram
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from controller.api.daemonset import DaemonSet, DaemonSetStatus, Phase, Rollout, rollout_of
from controller.api.names import InPlaceRefusal
from controller.api.objects import Value, epoch
from controller.observe.daemonset_gauges import OF_DAEMONSET

Method = Literal["in_place", "recreate", "surge"]
UPDATE_METHODS: tuple[Method, ...] = ("in_place", "recreate", "surge")
RolloutResult = Literal["completed", "rolled_back", "superseded"]
ROLLOUT_RESULTS: tuple[RolloutResult, ...] = ("completed", "rolled_back", "superseded")
LabelValues: TypeAlias = tuple[str, ...]

ROLLOUTS = (30, 60, 120, 300, 600, 1200, 2400, 3600, 7200, 14400, 28800, 86400)
NODES = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800)
"""Histogram buckets in seconds, for rollouts and for updates of nodes."""


class CounterFamily(NamedTuple):
    name: str
    meaning: str
    labels: tuple[str, ...]
    series: tuple[LabelValues, ...]
    """Label values whose series exist from the start for every DaemonSet."""
    in_place_series: tuple[LabelValues, ...]
    """Label values whose series exist only for DaemonSets that use, or have used, updates in place."""


OF_ROLLOUTS = "kruise_daemonset_rollouts"
OF_OPERATIONS = "kruise_daemonset_pod_operations"
OF_FALLBACKS = "kruise_daemonset_in_place_fallbacks"
OUTCOMES = ("success", "error")
FAMILIES = (
    CounterFamily(
        OF_ROLLOUTS,
        "Rollouts that ended: on every node, or replaced by an earlier or by a new revision",
        ("result",),
        tuple(product(ROLLOUT_RESULTS)),
        (),
    ),
    CounterFamily(
        OF_OPERATIONS,
        "Requests about pods and how they were answered; error: refused, or no answer",
        ("operation", "result"),
        tuple(product(("create", "delete", "adopt", "orphan"), OUTCOMES)),
        tuple(product(("update", "resize"), OUTCOMES)),
    ),
    CounterFamily(
        OF_FALLBACKS,
        "Pods that were re-created although an update in place was asked for",
        ("reason",),
        (),
        tuple((reason.value,) for reason in InPlaceRefusal),
    ),
)


class DaemonSetCounters(Collector):
    """Counts by DaemonSet uid, shown from 0 for the DaemonSets that `current` yields (none on a standby)."""

    def __init__(self, durations: Histogram, waits: Histogram, updates: Histogram) -> None:
        """`durations` of rollouts and their `waits` have the label `result`, `updates` of nodes `method`."""
        self._counts: dict[str, Count[LabelValues]] = {}
        self._rollouts: dict[str, RolloutRecord] = {}
        self._new_revisions: dict[str, str] = {}
        self._current: Callable[[], Iterable[DaemonSet]] = tuple
        self._clock: Callable[[], float] = float
        self._durations, self._waits = durations, waits
        self.updates = NodeUpdates(lambda method, seconds: updates.labels(method).observe(seconds))

    def show(self, current: Callable[[], Iterable[DaemonSet]], clock: Callable[[], float]) -> None:
        """`clock` is that of the updates of nodes."""
        self._current, self._clock = current, clock

    def count(self, uid: str, family: str, *labels: str) -> None:
        """Adds one to the family (`OF_…`) with these label values."""
        self._counts.setdefault(uid, Count())[family, *labels] += 1

    def revision_created(self, uid: str, revision_hash: str) -> None:
        """A rollout to a new ControllerRevision does not count as a rollback."""
        self._new_revisions[uid] = revision_hash

    def status_written(self, uid: str, before: DaemonSetStatus | None, after: DaemonSetStatus) -> None:
        is_new = self._new_revisions.get(uid) == after.update_revision
        if is_new:
            del self._new_revisions[uid]  # it is new only once: a later return to it is a rollback
        record = self._rollouts.get(uid, RolloutRecord())
        self._rollouts[uid], end = follow_rollout(record, before, after, is_new=is_new, now=self._clock())
        if end is not None:
            self.count(uid, OF_ROLLOUTS, end.result)
            self._durations.labels(end.result).observe(end.seconds)
            self._waits.labels(end.result).observe(end.waited)

    def forget(self, uid: str) -> None:
        for known in (self._counts, self._rollouts, self._new_revisions):
            known.pop(uid, None)
        self.updates.forget(uid)

    def collect(self) -> Iterator[Metric]:
        shown = [(daemonset, self._counts.get(daemonset.uid, Count())) for daemonset in self._current()]
        for family in FAMILIES:
            metric = CounterMetricFamily(family.name, family.meaning, labels=(*OF_DAEMONSET, *family.labels))
            for daemonset, counts in shown:
                for series in (*family.series, *family.in_place_series):
                    count = counts.get((family.name, *series))
                    if count is not None or daemonset.in_place or series in family.series:
                        metric.add_metric([daemonset.namespace, daemonset.name, *series], count or 0)
            yield metric

    def end_finished(self) -> None:
        """Ends updates that have finished since the last scrape; called before each scrape."""
        self.updates.end_finished(self._clock())


class _Update(msgspec.Struct):
    method: Method
    began: float
    pod: tuple[str, str] = ("", "")
    """Name and revision hash of the new pod; empty until it is created."""
    available_at: float | None = None
    """When the pod will have been ready for minReadySeconds; None while it is not ready."""


class NodeUpdates:
    """Durations of node updates, from the decision until the pod is available, in seconds of one clock."""

    def __init__(self, on_end: Callable[[Method, float], None]) -> None:
        """`on_end` is called once per finished update with its method and seconds."""
        self._on_end = on_end
        self._open: dict[str, dict[str, _Update]] = {}
        """By node, then uid, because thousands of nodes may be removed at once."""

    def began(self, uid: str, node: str, method: Method, now: float) -> None:
        """The old pod was deleted, or a pod was created beside it. Replaces an unfinished update."""
        self._end_if_finished(uid, node, now)
        self._open.setdefault(node, {})[uid] = _Update(method, now)

    def created(self, uid: str, node: str, pod: str, revision_hash: str) -> None:
        if (update := self._get(uid, node)) is not None:
            update.pod = pod, revision_hash

    def pod_seen(
        self, uid: str, node: str, pod: str, revision_hash: str, *, ready: bool, wait: float, now: float
    ) -> None:
        """Any pod in the cache; most belong to no update. `wait`: seconds until it counts as available."""
        self._end_if_finished(uid, node, now)
        update = self._get(uid, node)
        if update is None or update.pod != (pod, revision_hash):
            return
        if not ready:
            update.available_at = None
        elif update.available_at is None:
            update.available_at = now + wait

    def end_finished(self, now: float) -> None:
        for node, updates in tuple(self._open.items()):
            for uid in tuple(updates):
                self._end_if_finished(uid, node, now)

    def drop(self, uid: str, node: str) -> None:
        updates = self._open.get(node, {})
        updates.pop(uid, None)
        if not updates:
            self._open.pop(node, None)

    def forget_node(self, node: str) -> None:
        self._open.pop(node, None)

    def forget(self, uid: str) -> None:
        for node in tuple(self._open):
            self.drop(uid, node)

    def _get(self, uid: str, node: str) -> _Update | None:
        return self._open.get(node, {}).get(uid)

    def _end_if_finished(self, uid: str, node: str, now: float) -> None:
        update = self._get(uid, node)
        if update is not None and update.available_at is not None and update.available_at <= now:
            self.drop(uid, node)
            self._on_end(update.method, update.available_at - update.began)


WAITING = (Phase.PAUSED, Phase.HELD)
"""Phases in which the rollout waits for a person."""


class RolloutEnd(Value):
    """A rollout ends `completed` once every node has the revision (Healthy), or all that partition and selector allow
    before a new one; else `superseded` by a new revision or, if never Healthy, `rolled_back` to an earlier one."""

    result: RolloutResult
    seconds: float
    """Seconds since the start, including pauses."""
    waited: float
    """The seconds spent in `WAITING` phases."""


class RolloutRecord(Value):
    start: str = ""
    ended: bool = False
    waited: float = 0.0
    """Seconds in `WAITING` so far, as far as this process saw those phases end."""

    def end(self, result: RolloutResult, last: Rollout, until: float) -> RolloutEnd:
        seconds = _since(last.start_time, until)
        return RolloutEnd(result=result, seconds=seconds, waited=min(self.waited, seconds))


def follow_rollout(
    record: RolloutRecord, before: DaemonSetStatus | None, after: DaemonSetStatus, *, is_new: bool, now: float
) -> tuple[RolloutRecord, RolloutEnd | None]:
    """The record after this status write, and the end of a rollout, if any. `is_new`: the revision is new."""
    last, this = rollout_of(before), rollout_of(after)
    if record.start != last.start_time:
        record = RolloutRecord(start=last.start_time or "", ended=_is_over(before, last))
    if last.phase in WAITING and last.phase != this.phase:
        record = replace(record, waited=record.waited + _since(last.last_transition_time, now))
    if before is not None and (before.update_revision, last.start_time) != (after.update_revision, this.start_time):
        end = None if record.ended or not last.start_time else _end_of_replaced(record, last, is_new=is_new, now=now)
        return RolloutRecord(start=this.start_time or ""), end
    if this.phase == Phase.HEALTHY and not record.ended and this.start_time:
        return RolloutRecord(start=this.start_time, ended=True), record.end("completed", this, now)
    return (record if record.start else RolloutRecord(start=this.start_time or "")), None


def _is_over(status: DaemonSetStatus | None, rollout: Rollout) -> bool:
    """Whether a former leader has counted this end; if Degraded, only if its target was every node."""
    if status is None or rollout.completion_time is None:
        return False
    everywhere = rollout.target == status.desired_number_scheduled
    return rollout.phase == Phase.HEALTHY or (rollout.phase == Phase.DEGRADED and everywhere)


def _end_of_replaced(record: RolloutRecord, last: Rollout, *, is_new: bool, now: float) -> RolloutEnd:
    if not is_new:
        return record.end("rolled_back", last, now)
    if last.completion_time is not None:
        return record.end("completed", last, epoch(last.completion_time) or now)
    return record.end("superseded", last, now)


def _since(stamp: str | None, now: float) -> float:
    began = epoch(stamp)
    return 0.0 if began is None else max(now - began, 0.0)
