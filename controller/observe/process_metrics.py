"""Metrics of queues, caches, watches and tasks, read at each scrape, and the heartbeat of the event loop."""

from __future__ import annotations

import asyncio
from collections import Counter as Count
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import product
from typing import Generic, NoReturn, TypeAlias, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from controller.api.daemonset import DaemonSet
from controller.api.node import Node
from controller.api.objects import Key
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.runtime.store import Store
from controller.runtime.workqueue import WorkQueue

T = TypeVar("T")
M = TypeVar("M", Counter, Gauge, Histogram)

Row: TypeAlias = tuple[str, str, Callable[[T], float]]
"""Name, meaning, and function that reads the value."""
Cache: TypeAlias = Store[DaemonSet] | Store[Pod] | Store[Node] | Store[Revision]

QUEUES: tuple[Row[WorkQueue[Key]], ...] = (
    ("workqueue_depth", "Keys that are ready and not being processed", lambda queue: queue.depth),
    (
        "workqueue_unfinished_work_seconds",
        "Seconds for which keys have been processed so far, summed over those in progress",
        lambda queue: sum(queue.processing_seconds()),
    ),
    (
        "workqueue_longest_running_processor_seconds",
        "Seconds for which the key that has been in progress longest has been processed",
        lambda queue: max(queue.processing_seconds(), default=0.0),
    ),
    ("workqueue_adds_total", "Keys added to the queue", lambda queue: queue.adds),
    ("workqueue_retries_total", "Keys that failed and come again", lambda queue: queue.retries),
)
CACHES: tuple[Row[Cache], ...] = (
    ("kruise_ds_informer_synced", "1 after the first list", lambda cache: float(cache.filled)),
    ("kruise_ds_informer_objects", "Size of the cache", len),
    (
        "kruise_ds_informer_unreadable_objects",
        "Objects whose latest state cannot be decoded; the last good state is used",
        lambda cache: len(cache.malformed),
    ),
)
LAST_RECEIVED: Row[Mapping[str, float]] = (
    "kruise_ds_informer_last_contact_timestamp_seconds",
    "When the last event or bookmark came, 0 if none has",
    lambda watches: min(watches.values(), default=0.0),  # of several, the one that has been silent for longest
)
TASKS: Row[int] = ("kruise_ds_tasks", "Live asyncio tasks by purpose", float)
KINDS = ("worker", "reflector", "events", "heartbeat", "lease", "other")
"""The kinds of tasks: the beginnings of their names."""


class Scraped(Collector, Generic[T]):
    """Metrics of several things, whose names are the values of `label`."""

    def __init__(self, label: str, things: Callable[[], Mapping[str, T]], *rows: Row[T]) -> None:
        self._label, self._things, self._rows = label, things, rows

    def collect(self) -> Iterator[Metric]:
        things = self._things()
        for name, meaning, read in self._rows:
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            family = kind(name, meaning, labels=(self._label,))
            for value, thing in things.items():
                family.add_metric([value], read(thing))
            yield family


class Registry(CollectorRegistry):
    """Makes metrics. `labels` are given with the values whose series exist from the start, as 0."""

    def counter(self, name: str, meaning: str, /, **labels: Iterable[str]) -> Counter:
        return _from_zero(Counter(name, meaning, tuple(labels), registry=self), labels)

    def gauge(self, name: str, meaning: str, /, **labels: Iterable[str]) -> Gauge:
        return _from_zero(Gauge(name, meaning, tuple(labels), registry=self), labels)

    def histogram(self, name: str, meaning: str, buckets: tuple[float, ...], /, **labels: Iterable[str]) -> Histogram:
        return _from_zero(Histogram(name, meaning, tuple(labels), buckets=buckets, registry=self), labels)


def _from_zero(metric: M, labels: Mapping[str, Iterable[str]]) -> M:
    for values in product(*labels.values()) if labels else ():
        metric.labels(*values)
    return metric


def task_counts() -> Mapping[str, int]:
    """Unfinished tasks of the running loop by kind; all 0 outside of a loop."""
    found = Count(dict.fromkeys(KINDS, 0))
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:
        return found
    for task in tasks:
        kind = task.get_name().partition("-")[0]
        found[kind if kind in found else "other"] += not task.done()
    return found


HEARTBEAT_SECONDS = 0.1
BLOCKED_SECONDS = 10.0
"""Seconds; a leader blocked for so long has lost its Lease (`leader_election.RENEW_DEADLINE`)."""


class Heartbeat:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._at = self._loop.time()

    def check(self) -> str:
        """A `Check` that fails if the loop was blocked for more than `BLOCKED_SECONDS` and has not recovered."""
        silence = self._loop.time() - self._at
        return f"the event loop was blocked for {silence:.0f} s" if silence > BLOCKED_SECONDS else ""

    async def run(self, on_lag: Callable[[float], None]) -> NoReturn:
        while True:
            due = self._loop.time() + HEARTBEAT_SECONDS
            await asyncio.sleep(HEARTBEAT_SECONDS)  # waking up late is the lag that is reported
            self._at = self._loop.time()
            on_lag(max(0.0, self._at - due))


@asynccontextmanager
async def heartbeat(on_lag: Callable[[float], None]) -> AsyncIterator[Heartbeat]:
    """Runs every `HEARTBEAT_SECONDS` inside the block and reports how many seconds late each run was."""
    beating = Heartbeat()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(beating.run(on_lag), name="heartbeat")
        yield beating
        task.cancel()
