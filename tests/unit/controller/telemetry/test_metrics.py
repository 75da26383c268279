from __future__ import annotations

import asyncio
from collections.abc import Mapping

from controller.runtime.workqueue import WorkQueue
from controller.telemetry.exposition import encoded
from controller.telemetry.metrics import Metrics
from tests.beds.virtual_time import virtually


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


def test_passes_by_result() -> None:
    metrics = Metrics(version="0.1.0")
    metrics.passed("success", queued_seconds=0.1, work_seconds=0.2)
    metrics.passed("error", queued_seconds=0.1, work_seconds=0.2, crashed=True)
    for result, count in (("success", 1), ("error", 1), ("requeue_after", 0)):
        assert value(metrics, "controller_runtime_reconcile_total", DAEMONSET | {"result": result}) == count
    assert value(metrics, "controller_runtime_reconcile_errors_total", DAEMONSET) == 1
    assert value(metrics, "controller_runtime_reconcile_panics_total", DAEMONSET) == 1
    assert value(metrics, "workqueue_work_duration_seconds_count", {"name": "daemonset"}) == 2


def test_requests_by_code_and_method() -> None:
    metrics = Metrics(version="0.1.0", host="api")
    metrics.answered("create", 201, 0.01)
    metrics.answered("create", 409, 0.01)
    metrics.answered("patch", 0, 30.0)
    for code, method in (("201", "POST"), ("409", "POST"), ("<error>", "PATCH")):
        labels = {"code": code, "method": method, "host": "api"}
        assert value(metrics, "rest_client_requests_total", labels) == 1, labels
    verb = {"verb": "create", "host": "api"}
    assert value(metrics, "rest_client_request_duration_seconds_count", verb) == 2


def test_the_queue_is_read_at_the_scrape() -> None:
    async def main() -> None:
        metrics, queue = Metrics(version="0.1.0"), WorkQueue[str]()
        metrics.watch_queues({"daemonset": queue})
        queue.add("a")
        queue.add("b")
        queue.retry("c")
        name = {"name": "daemonset"}
        async with queue.take():
            await asyncio.sleep(7)
            assert value(metrics, "workqueue_depth", name) == 2, "b, and c after its delay"
            assert value(metrics, "workqueue_longest_running_processor_seconds", name) == 7.0
            assert value(metrics, "controller_runtime_active_workers", DAEMONSET) == 1
        assert value(metrics, "workqueue_adds_total", name) == 3
        assert value(metrics, "workqueue_retries_total", name) == 1

    virtually(main())


class FilledCache:
    filled = True
    malformed = ("one", "another")

    def __len__(self) -> int:
        return 5


def test_caches_are_read_at_the_scrape() -> None:
    metrics = Metrics(version="0.1.0")
    metrics.watch_caches({"pods": FilledCache()})
    assert value(metrics, "kruise_ds_informer_synced", {"resource": "pods"}) == 1
    assert value(metrics, "kruise_ds_informer_objects", {"resource": "pods"}) == 5
    assert value(metrics, "kruise_ds_informer_unreadable_objects", {"resource": "pods"}) == 2


def test_leading_shows() -> None:
    metrics = Metrics(version="0.1.0")
    metrics.leads(True)
    assert value(metrics, "leader_election_master_status", {"name": "kruise-ds-controller"}) == 1
    metrics.leads(False)
    assert value(metrics, "leader_election_master_status", {"name": "kruise-ds-controller"}) == 0
