"""What is read off a queue at a scrape."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from controller.telemetry.collectors import QueueCollector


@dataclass
class Queue:
    adds: int = 9
    retries: int = 4
    depth: int = 2

    def processing_seconds(self) -> tuple[float, ...]:
        return (1.0, 5.0)


def test_each_number_stands_under_its_name() -> None:
    registry = CollectorRegistry()
    registry.register(QueueCollector({"daemonset": Queue(), "imagepulljob": Queue(depth=7)}))
    names = ("depth", "unfinished_work_seconds", "longest_running_processor_seconds", "adds_total", "retries_total")
    told = [registry.get_sample_value(f"workqueue_{name}", {"name": "daemonset"}) for name in names]
    assert told == [2, 6.0, 5.0, 9, 4]
    assert registry.get_sample_value("workqueue_depth", {"name": "imagepulljob"}) == 7
    assert len({family.name for family in registry.collect()}) == len(list(registry.collect())), "each family once"
