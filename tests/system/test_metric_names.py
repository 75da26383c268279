"""The counters, the histograms and the controller's own gauges: dashboards and alerts rely on these names and labels.

The gauges of each DaemonSet are in tests/unit/controller/observe/test_daemonset_gauges.py.
"""

from __future__ import annotations

from collections import Counter

import pytest_asyncio
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.beds.controller.bed import Bed
from tests.beds.controller.opening import simulated
from tests.tools.metrics_manual import PAGE, exposition, page

OBJECT = {"namespace", "daemonset"}
CONTROLLER, QUEUE = {"controller"}, {"name"}

COUNTERS: dict[str, set[str]] = {
    "kruise_daemonset_rollouts": OBJECT | {"result"},
    "kruise_daemonset_pod_operations": OBJECT | {"operation", "result"},
    "kruise_daemonset_in_place_fallbacks": OBJECT | {"reason"},
    "kruise_ds_status_updates": {"result"},
    "kruise_ds_expectations_timeouts": set(),
    "kruise_ds_template_dry_runs": {"result"},
    "kruise_ds_foreign_status_writes": set(),
    "kruise_ds_watch_restarts": {"resource", "reason"},
    "kruise_ds_image_pulls": {"result"},
    "controller_runtime_reconcile": CONTROLLER | {"result"},
    "controller_runtime_reconcile_errors": CONTROLLER,
    "controller_runtime_reconcile_panics": CONTROLLER,
    "workqueue_adds": QUEUE,
    "workqueue_retries": QUEUE,
    "rest_client_requests": {"code", "method", "host"},
}
GAUGES: dict[str, set[str]] = {
    "kruise_ds_informer_synced": {"resource"},
    "kruise_ds_informer_objects": {"resource"},
    "kruise_ds_informer_unreadable_objects": {"resource"},
    "kruise_ds_informer_last_contact_timestamp_seconds": {"resource"},
    "kruise_ds_tasks": {"kind"},
    "kruise_ds_image_pull_jobs": set(),
    "kruise_ds_image_pull_pods": set(),
    "kruise_ds_build_info": {"version", "revision", "python_version"},
    "controller_runtime_active_workers": CONTROLLER,
    "controller_runtime_max_concurrent_reconciles": CONTROLLER,
    "workqueue_depth": QUEUE,
    "workqueue_unfinished_work_seconds": QUEUE,
    "workqueue_longest_running_processor_seconds": QUEUE,
    "leader_election_master_status": QUEUE,
}
HISTOGRAMS: dict[str, tuple[set[str], tuple[float, ...]]] = {
    "kruise_ds_rollout_duration_seconds": (
        {"result"},
        (30, 60, 120, 300, 600, 1200, 2400, 3600, 7200, 14400, 28800, 86400),
    ),
    "kruise_ds_rollout_paused_duration_seconds": (
        {"result"},
        (30, 60, 120, 300, 600, 1200, 2400, 3600, 7200, 14400, 28800, 86400),
    ),
    "kruise_ds_node_update_duration_seconds": ({"method"}, (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800)),
    "kruise_ds_event_loop_lag_seconds": (set(), (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5)),
    "controller_runtime_reconcile_time_seconds": (CONTROLLER, ()),
    "workqueue_queue_duration_seconds": (QUEUE, ()),
    "workqueue_work_duration_seconds": (QUEUE, ()),
    "rest_client_request_duration_seconds": ({"verb", "host"}, ()),
}
"""Labels, and buckets where they are given."""


@pytest_asyncio.fixture
async def families() -> dict[str, Metric]:
    """What a leader tells after an update."""
    async with simulated() as bed:
        text = await exposition(bed)
    return {family.name: family for family in text_string_to_metric_families(text)}


def labels(family: Metric) -> set[str]:
    return {label for sample in family.samples for label in sample.labels} - {"le"}


async def test_names_labels_and_buckets_are_the_documented_ones(families: dict[str, Metric]) -> None:
    for kind, wanted in (("counter", COUNTERS), ("gauge", GAUGES)):
        found = {name: (family.type, labels(family)) for name, family in families.items() if name in wanted}
        assert found == {name: (kind, names) for name, names in wanted.items()}
    for name, (names, buckets) in HISTOGRAMS.items():
        family = families[name]
        assert (family.type, labels(family)) == ("histogram", names), name
        bounds = sorted({float(one.labels["le"]) for one in family.samples if one.name.endswith("_bucket")})
        assert not buckets or tuple(bounds[:-1]) == buckets, name


async def test_of_one_daemonset_there_are_at_most_sixty_series(families: dict[str, Metric]) -> None:
    """Twelve more where updates in place are asked for, and four for each zone after the first. Thousands of objects
    are scraped from one process."""
    there = [sample for family in families.values() for sample in family.samples if "daemonset" in sample.labels]
    assert {sample.labels["daemonset"] for sample in there} == {"agent"}
    assert len({sample.labels["zone"] for sample in there if "zone" in sample.labels}) == 1
    in_place = [one for one in there if one.labels.get("operation") in ("update", "resize") or _is_fallback(one)]
    assert len(in_place) == 12
    by_name = Counter(sample.name for sample in there)
    assert by_name.total() - len(in_place) <= 60, by_name.most_common()


def _is_fallback(sample: Sample) -> bool:
    return sample.name == "kruise_daemonset_in_place_fallbacks_total"


async def test_the_dashboards_of_every_process_find_what_they_know(families: dict[str, Metric]) -> None:
    for name in ("process_cpu_seconds", "process_resident_memory_bytes", "python_info", "python_gc_collections"):
        assert name in families
    assert not [name for name in families if name.endswith("_created") and name != "kruise_daemonset_created"]


async def test_the_manual_is_up_to_date(bed: Bed) -> None:
    assert PAGE.read_text() == page(await exposition(bed)), "stale: make docs"
