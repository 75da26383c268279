"""Measures how long the update of each node takes: from the decision until its new or changed pod is available.

Finds out from two successive statuses when a rollout ends, and how. Pure.

Each rollout ends once: `completed` when every node has the revision (Healthy), or when a new revision follows after
all nodes that partition and selector allow had it; `superseded` when a new revision comes before that; `rolled_back`
when an earlier revision comes back before it was Healthy, held or not.

Counts what was done for each DaemonSet. Only the leader counts; the counts are dropped with their DaemonSet.
"""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from controller.api.daemonset import DaemonSet, DaemonSetStatus, Phase, Rollout
from controller.api.names import InPlaceRefusal
from controller.api.objects import Value, epoch
from controller.observe.daemonset_gauges import OF_DAEMONSET
from controller.observe.process_metrics import Registry

Method = Literal["in_place", "recreate", "surge"]
METHODS: tuple[Method, ...] = ("in_place", "recreate", "surge")


class _Update(msgspec.Struct):
    method: Method
    began: float
    pod: tuple[str, str] = ("", "")
    """Name and revision hash of the new pod; empty: it is not created yet."""
    available_at: float | None = None
    """When the pod will have been ready for minReadySeconds; None: it is not ready."""


class NodeUpdates:
    """The updates in progress, by DaemonSet uid and node. All times are seconds of one clock."""

    def __init__(self, ended: Callable[[Method, float], None]) -> None:
        """`ended` is called once for each finished update, with its method and its seconds."""
        self._ended = ended
        self._open: dict[str, dict[str, _Update]] = {}
        """The updates by node, then by uid, because thousands of nodes may be removed at once."""

    def began(self, uid: str, node: str, method: Method, now: float) -> None:
        """Begin an update: the old pod was deleted, or a pod was created beside it. A later one begins anew."""
        self._settle(uid, node, now)
        self._open.setdefault(node, {})[uid] = _Update(method, now)

    def created(self, uid: str, node: str, pod: str, revision_hash: str) -> None:
        """Note the new pod, created or changed to this revision."""
        update = self._of(uid, node)
        if update is not None:
            update.pod = pod, revision_hash

    def seen(
        self, uid: str, node: str, pod: str, revision_hash: str, *, ready: bool, wait: float, now: float
    ) -> None:
        """Note a pod in the cache; most belong to no update. `wait`: seconds until it counts as available."""
        self._settle(uid, node, now)
        update = self._of(uid, node)
        if update is None or update.pod != (pod, revision_hash):
            return
        if not ready:
            update.available_at = None
        elif update.available_at is None:
            update.available_at = now + wait

    def settle(self, now: float) -> None:
        """End all updates whose pod is available by now."""
        for node, updates in tuple(self._open.items()):
            for uid in tuple(updates):
                self._settle(uid, node, now)

    def drop(self, uid: str, node: str) -> None:
        updates = self._open.get(node)
        if updates is not None:
            updates.pop(uid, None)
            if not updates:
                del self._open[node]

    def forget_node(self, node: str) -> None:
        """Forget a node that is gone."""
        self._open.pop(node, None)

    def forget(self, uid: str) -> None:
        for node in tuple(self._open):
            self.drop(uid, node)

    def _of(self, uid: str, node: str) -> _Update | None:
        updates = self._open.get(node)
        return None if updates is None else updates.get(uid)

    def _settle(self, uid: str, node: str, now: float) -> None:
        """End the update if its pod is available by now, whatever happens later."""
        update = self._of(uid, node)
        if update is not None and update.available_at is not None and update.available_at <= now:
            self.drop(uid, node)
            self._ended(update.method, update.available_at - update.began)


RolloutResult = Literal["completed", "rolled_back", "superseded"]
ROLLOUT_RESULTS: tuple[RolloutResult, ...] = ("completed", "rolled_back", "superseded")
RESTING = (Phase.PAUSED, Phase.HELD)
"""Phases in which the rollout waits for a person."""


class End(Value):
    result: RolloutResult
    seconds: float
    """Seconds from the start, pauses included."""


class RolloutCourse(Value):
    """Remembers one rollout from status to status."""

    start: str = ""
    ended: bool = False
    rested: float = 0.0
    """Seconds in `RESTING` so far, as far as this process saw those phases end."""


def follow(
    course: RolloutCourse, before: DaemonSetStatus | None, after: DaemonSetStatus, *, is_new: bool, now: float
) -> tuple[RolloutCourse, End | None, float]:
    """The course to remember after this write of the status; the end of a rollout, or None if none has ended; and how
    many seconds that rollout was in `RESTING` phases. `is_new`: the revision of `after` did not exist before."""
    last = (before.rollout if before is not None else None) or Rollout()
    this = after.rollout or Rollout()
    if course.start != last.start_time:
        course = RolloutCourse(start=last.start_time or "", ended=_is_over(before, last))
    if last.phase in RESTING and last.phase != this.phase:
        course = replace(course, rested=course.rested + _since(last.last_transition_time, now))
    replaced = before is not None and (before.update_revision, last.start_time) != (
        after.update_revision,
        this.start_time,
    )
    if replaced:
        end = None if course.ended or not last.start_time else _replaced(last, is_new=is_new, now=now)
        successor = RolloutCourse(start=this.start_time or "")
        return successor, end, _share(course, end)
    if this.phase == Phase.HEALTHY and not course.ended and this.start_time:
        end = End(result="completed", seconds=_since(this.start_time, now))
        return RolloutCourse(start=this.start_time, ended=True), end, _share(course, end)
    return (course if course.start else RolloutCourse(start=this.start_time or "")), None, 0.0


def _is_over(status: DaemonSetStatus | None, record: Rollout) -> bool:
    """Whether a former leader has counted the end of this rollout already. A complete rollout that is Degraded now
    was counted only if its target was every node; otherwise it was held."""
    if status is None or record.completion_time is None:
        return False
    everywhere = record.target == status.desired_number_scheduled
    return record.phase == Phase.HEALTHY or (record.phase == Phase.DEGRADED and everywhere)


def _replaced(last: Rollout, *, is_new: bool, now: float) -> End:
    if not is_new:
        return End(result="rolled_back", seconds=_since(last.start_time, now))
    if last.completion_time is not None:
        return End(result="completed", seconds=_since(last.start_time, epoch(last.completion_time) or now))
    return End(result="superseded", seconds=_since(last.start_time, now))


def _share(course: RolloutCourse, end: End | None) -> float:
    return 0.0 if end is None else min(course.rested, end.seconds)


def _since(stamp: str | None, now: float) -> float:
    began = epoch(stamp)
    return 0.0 if began is None else max(now - began, 0.0)


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
