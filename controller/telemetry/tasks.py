"""Live asyncio tasks by what they are for."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

KINDS = ("worker", "reflector", "events", "heartbeat", "lease", "other")


def living() -> Counter[str]:
    """Tasks of the running loop that have not ended, by kind; none outside of a loop."""
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:
        return Counter()
    return Counter(_kind(task.get_name()) for task in tasks if not task.done())


def _kind(name: str) -> str:
    if name == "leader-lease":
        return "lease"
    head = name.partition("-")[0]
    return head if head in KINDS else "other"


class TaskCollector(Collector):
    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        found = living()
        tasks = GaugeMetricFamily("kruise_ds_tasks", "Live asyncio tasks by what they are for", labels=("kind",))
        for kind in KINDS:
            tasks.add_metric([kind], found[kind])
        yield tasks
