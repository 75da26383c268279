"""Metrics that are there from the start, and those that are read at the scrape."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import nullcontext

from controller.api.objects import Key
from controller.api.pod import Pod
from controller.kube.decode import Malformed, Seen
from controller.observe.metrics import Metrics, encoded, task_counts
from controller.runtime.store import Store
from controller.runtime.watch import Init
from controller.runtime.workers import Done, Outcome, Requeue, workers
from controller.runtime.workqueue import WorkItem, WorkQueue
from tests.beds.stores import taken_from
from tests.beds.virtual_time import virtual_time_from
from tests.beds.worlds import everywhere


def value(metrics: Metrics, name: str, labels: Mapping[str, str] | None = None) -> float | None:
    return metrics.registry.get_sample_value(name, dict(labels or {}))


DAEMONSET = {"controller": "daemonset"}


def test_what_is_known_in_advance_starts_at_zero() -> None:
    metrics = Metrics(version="0.1.0", workers=3, host="api:6443")
    text = encoded(tuple(metrics.families()))[0].decode()
    for line in (
        'controller_runtime_reconcile_total{controller="daemonset",result="error"} 0.0',
        'controller_runtime_reconcile_panics_total{controller="daemonset"} 0.0',
        'controller_runtime_max_concurrent_reconciles{controller="daemonset"} 3.0',
        'rest_client_requests_total{code="201",host="api:6443",method="POST"} 0.0',
        'kruise_ds_malformed_objects_total{resource="pods"} 0.0',
        "kruise_ds_stale_passes_total 0.0",
        'leader_election_master_status{name="kruise-ds-controller"} 0.0',
    ):
        assert line in text
    assert "_created" not in text


@virtual_time_from(1000.0)
async def test_queues_are_read_at_the_scrape() -> None:
    metrics, queue, images = Metrics(version="0.1.0"), WorkQueue[Key](), WorkQueue[Key]()
    metrics.watch_queues({"daemonset": queue, "daemonset-images": images})
    for name in ("a", "b", "c"):
        queue.add(Key("shop", name))
    queue.add_rate_limited(Key("shop", "d"))
    images.add(Key("shop", "a"))
    async with taken_from(queue):
        await asyncio.sleep(5)
        async with taken_from(queue):
            await asyncio.sleep(2)
            for name, number in (
                ("depth", 2),  # c, and d after its delay
                ("unfinished_work_seconds", 9.0),
                ("longest_running_processor_seconds", 7.0),
                ("adds_total", 4),
                ("retries_total", 1),
            ):
                assert value(metrics, f"workqueue_{name}", {"name": "daemonset"}) == number, name
            assert value(metrics, "controller_runtime_active_workers", DAEMONSET) == 2
    assert value(metrics, "workqueue_depth", {"name": "daemonset-images"}) == 1
    assert value(metrics, "workqueue_work_duration_seconds_count", {"name": "daemonset-images"}) == 0
    families = [family.name for family in metrics.registry.collect()]
    assert len(set(families)) == len(families), "each family once"


def test_caches_are_read_at_the_scrape() -> None:
    metrics, store = Metrics(version="0.1.0"), Store[Pod]()
    writer = store.writers[""]
    metrics.watch_caches({"pods": store})
    assert value(metrics, "kruise_ds_informer_synced", {"resource": "pods"}) == 0
    for one in everywhere(5):
        writer.apply(Seen(key=one.key, version=one.version, obj=one))
    for name in ("one", "another"):
        writer.apply(Malformed(key=Key("shop", name), version="1", reason="no number"))
    assert value(metrics, "kruise_ds_informer_objects", {"resource": "pods"}) == 5
    assert value(metrics, "kruise_ds_informer_unreadable_objects", {"resource": "pods"}) == 2
    writer.apply(Init())
    list(writer.replace("9"))
    assert value(metrics, "kruise_ds_informer_synced", {"resource": "pods"}) == 1


@virtual_time_from(0.0)
async def test_running_passes_are_counted_as_such_beside_the_workers() -> None:
    counted: list[tuple[int, int]] = []

    async def handle(taken: WorkItem[str], requeue: Requeue) -> Outcome:
        counted.append((task_counts()["pass"], task_counts()["worker"]))
        return Done()

    queue: WorkQueue[str] = WorkQueue()
    async with workers(2, queue, handle, around=lambda taken: nullcontext(lambda done: None), drain=0.0):
        queue.add("key")
        await asyncio.sleep(1)
    assert counted == [(1, 2)]
