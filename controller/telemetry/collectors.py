"""The metrics of queue and caches, read off at a scrape: they cost nothing until somebody asks.

Scrapes run on the event loop, where queue and caches may be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class Queue(Protocol):
    """What is read off a work queue at every scrape."""

    adds: int
    retries: int

    @property
    def depth(self) -> int: ...

    def processing_seconds(self) -> tuple[float, ...]: ...


class Cache(Protocol):
    """What is read off a cache at every scrape."""

    @property
    def filled(self) -> bool: ...
    @property
    def malformed(self) -> Sized: ...

    def __len__(self) -> int: ...


class QueueCollector(Collector):
    def __init__(self, queues: Mapping[str, Queue]) -> None:
        """By the value of the label `name`."""
        self._queues = queues

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        depth, unfinished, longest = (
            GaugeMetricFamily(f"workqueue_{name}", meaning, labels=("name",))
            for name, meaning in (
                ("depth", "Keys that are ready and in nobody's hand"),
                ("unfinished_work_seconds", "Sum of how long keys are held by now"),
                ("longest_running_processor_seconds", "The longest of these"),
            )
        )
        adds, retries = (
            CounterMetricFamily(f"workqueue_{name}", meaning, labels=("name",))
            for name, meaning in (("adds", "Keys that became wanted"), ("retries", "Keys that failed and come again"))
        )
        for name, queue in self._queues.items():
            held = queue.processing_seconds()
            depth.add_metric([name], queue.depth)
            unfinished.add_metric([name], sum(held))
            longest.add_metric([name], max(held, default=0.0))
            adds.add_metric([name], queue.adds)
            retries.add_metric([name], queue.retries)
        yield from (depth, unfinished, longest, adds, retries)


class CacheCollector(Collector):
    def __init__(self, caches: Mapping[str, Cache]) -> None:
        self._caches = caches

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        synced = GaugeMetricFamily("kruise_ds_informer_synced", "1 after the first list", labels=("resource",))
        objects = GaugeMetricFamily("kruise_ds_informer_objects", "Size of the cache", labels=("resource",))
        unreadable = GaugeMetricFamily(
            "kruise_ds_informer_unreadable_objects",
            "Objects whose latest state cannot be read, of which the last good one counts",
            labels=("resource",),
        )
        for resource, cache in self._caches.items():
            synced.add_metric([resource], float(cache.filled))
            objects.add_metric([resource], len(cache))
            unreadable.add_metric([resource], len(cache.malformed))
        yield synced
        yield objects
        yield unreadable
