"""What a scrape tells: names and labels, the state of each DaemonSet, and what the controller counts of its work."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import msgspec
import pytest_asyncio
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from controller.api.objects import epoch
from controller.app import ProcessOptions
from controller.kube.transport import open_transport
from controller.settings import Address
from tests.beds.api import DAEMONSETS, PODS, Api
from tests.beds.control_plane import ControlPlane
from tests.beds.control_plane.access import get
from tests.beds.control_plane.processes import free_port
from tests.beds.controller.bed import Bed, uids
from tests.beds.controller.journal import Write
from tests.beds.controller.metrics import elected, filled, metric, scraped, state, tells
from tests.beds.controller.opening import connection_to, simulated
from tests.beds.controller.running import Controller
from tests.beds.nodes import Behaviour
from tests.beds.objects import V2, V3, bare_pod, daemonset, is_ready
from tests.beds.simulator.faults import LateWatch, Rule
from tests.beds.virtual_time import follow_real_time
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
    """Twelve more where updates in place are asked for, 17 for the fields of progressive rollouts with one check,
    four for each zone after the first. Thousands of objects are scraped from one process."""
    there = [sample for family in families.values() for sample in family.samples if "daemonset" in sample.labels]
    assert {sample.labels["daemonset"] for sample in there} == {"agent"}
    assert len({sample.labels["zone"] for sample in there if "zone" in sample.labels}) == 1
    in_place = [one for one in there if one.labels.get("operation") in ("update", "resize") or _is_fallback(one)]
    assert len(in_place) == 12
    by_name = Counter(sample.name for sample in there)
    progressive = [one for one in there if _is_progressive(one)]
    assert len(progressive) == 17
    assert by_name.total() - len(in_place) - len(progressive) <= 60, by_name.most_common()


PROGRESSIVE_REASONS = {
    "StepReached",
    "Soaking",
    "AwaitingApproval",
    "RolloutAborted",
    "CheckFailing",
    "CheckUnanswered",
    "TooManyUnreachableNodes",
}


def _is_progressive(sample: Sample) -> bool:
    fields = ("step", "steps", "soak_seconds_left", "aborted", "check", "left_out_nodes")
    is_phase = sample.labels.get("phase") in ("Soaking", "AwaitingApproval", "Aborted")
    is_reason = sample.name.endswith("_blocked") and sample.labels["reason"] in PROGRESSIVE_REASONS
    return is_phase or is_reason or sample.name in [f"kruise_daemonset_rollout_{one}" for one in fields]


def _is_fallback(sample: Sample) -> bool:
    return sample.name == "kruise_daemonset_in_place_fallbacks_total"


async def test_the_dashboards_of_every_process_find_what_they_know(families: dict[str, Metric]) -> None:
    for name in ("process_cpu_seconds", "process_resident_memory_bytes", "python_info", "python_gc_collections"):
        assert name in families
    assert not [name for name in families if name.endswith("_created") and name != "kruise_daemonset_created"]


async def test_the_manual_is_up_to_date(bed: Bed) -> None:
    assert PAGE.read_text() == page(await exposition(bed)), "stale: make docs"


ZONE = "topology.kubernetes.io/zone"
CRASHES = Behaviour(crash=0.0, back_off=3600.0)
NO_IMAGE = Behaviour(missing_images=("*:v2",))


async def zoned(bed: Bed, east: int, west: int) -> None:
    """node-0 … in the east, then those in the west."""
    for number in range(east + west):
        await bed.nodes.add(f"node-{number}", labels={ZONE: "east" if number < east else "west"})


async def test_an_update_on_which_two_nodes_fail(bed: Bed) -> None:
    await zoned(bed, 3, 3)
    await bed.deploy(daemonset(rolling={"maxUnavailable": "50%"}))
    made = await bed.daemonset()
    healthy = await tells(bed, rollout_phase={"Healthy": 1}, status_number_available=6)
    assert healthy["created"] == epoch(made["metadata"]["creationTimestamp"])
    assert healthy["rollout_zone_nodes"] == {"updated/east": 3, "updated/west": 3}
    assert healthy["spec_strategy_rollingupdate_max_unavailable"] == 3
    assert (healthy["rollout_blocked"], healthy["rollout_failed_nodes"]) == ({}, {})
    bed.nodes.behave("node-5", CRASHES)
    bed.nodes.behave("node-2", NO_IMAGE)
    await bed.set_image(V2)
    found = await tells(
        bed,
        rollout_failed_nodes={"CrashLoopBackOff": 1, "ImagePull": 1},
        rollout_updated_available_nodes=4,
        rollout_updating_nodes=0,
        status_number_unavailable=2,
    )
    pods = await bed.pods()
    assert {node for node, pod in pods.items() if not is_ready(pod)} == {"node-2", "node-5"}
    zones = {"updated/east": 2, "failed/east": 1, "updated/west": 2, "failed/west": 1}
    assert (found["rollout_zone_nodes"], found["rollout_blocked"]) == (zones, {})
    assert (found["rollout_phase"], found["rollout_target_nodes"]) == ({"Progressing": 1}, 6)
    revision = (await bed.daemonset())["status"]["updateRevision"]
    assert found["info"] == {f"Standard/RollingUpdate/{revision}": 1}
    assert found["rollout_started_timestamp_seconds"] == epoch((await bed.phase("Progressing"))["startTime"])
    bed.nodes.behave("node-5", None)
    bed.nodes.behave("node-2", None)
    for pod in [pods["node-2"], pods["node-5"]]:
        await bed.api.delete(PODS, pod["metadata"]["name"])
    await tells(bed, rollout_phase={"Healthy": 1}, rollout_failed_nodes={}, rollout_updated_available_nodes=6)
    await bed.api.delete(DAEMONSETS, "agent")
    await gone(bed)


async def gone(bed: Bed) -> None:
    def missing() -> str:
        found = state(bed.controller)
        return f"there is still {found}" if found else ""

    await scraped(bed, missing)


async def test_a_cache_that_lags_behind_our_own_writes_is_reported(bed: Bed) -> None:
    await bed.add_nodes(1)
    await filled(bed, bed.controller)
    late = Rule(verb="watch", resource="pods", effect=LateWatch(seconds=3600))
    bed.simulator.link.faults.add(late)
    bed.simulator.link.drop_watches("pods")
    await bed.api.create(DAEMONSETS, daemonset())
    await tells(bed, rollout_blocked={"ServerSilent": 1})
    bed.simulator.link.faults.remove(late)
    bed.simulator.link.drop_watches("pods")
    await tells(bed, rollout_blocked={}, rollout_phase={"Healthy": 1})


async def test_only_the_leader_tells_and_the_next_one_takes_over(bed: Bed) -> None:
    await bed.deploy(daemonset(), nodes=2)
    await bed.controller.stop()
    async with asyncio.TaskGroup() as tasks:
        pair = [Controller(bed.simulator.link, bed.api.namespace, tasks) for _ in range(2)]
        settings = [elected(bed), msgspec.structs.replace(elected(bed), zone_metrics=False)]
        pair[0].start(settings[0])
        await tells(bed, pair[0], rollout_zone_nodes={"updated/none": 2})
        pair[1].start(settings[1])
        await filled(bed, pair[1])
        assert state(pair[1]) == {}, "a standby tells nothing of what it does not look after"
        await pair[0].stop()
        found = await tells(bed, pair[1], rollout_phase={"Healthy": 1}, rollout_updating_nodes=0)
        assert "rollout_zone_nodes" not in found, "zones were turned off there"
        await pair[1].stop()


OPERATIONS = "kruise_daemonset_pod_operations_total"
IN_PLACE = "InPlaceIfPossible"
SECONDS = "kruise_ds_node_update_duration_seconds_count"


async def counting(bed: Bed, **spec: Any) -> None:
    """A DaemonSet on three nodes that the controller has deployed."""
    await bed.add_nodes(3)
    await bed.api.create(DAEMONSETS, daemonset(**spec))
    await bed.settled()
    await bed.phase("Healthy")
    await bed.idle()


def answered(writes: list[Write]) -> tuple[float, float]:
    """How many went through, and how many did not."""
    done = sum(200 <= write.status < 300 for write in writes)
    return done, len(writes) - done


async def test_pod_operations_are_what_the_server_was_asked_for(bed: Bed) -> None:
    await counting(bed)
    await bed.update(V2)
    stray = bare_pod("stray", "node-0")
    await bed.api.create(PODS, stray)
    await bed.until(
        PODS, lambda found: "" if len(found) == 3 else f"{len(found)} pods", "the stray one adopted and gone"
    )
    await bed.idle()
    for operation, verb in (("create", "create"), ("delete", "delete"), ("adopt", "patch")):
        told = [
            metric(bed.controller, OPERATIONS, daemonset="agent", operation=operation, result=result)
            for result in ("success", "error")
        ]
        assert tuple(told) == answered(bed.journal.of("pods", verb, failed=True)), operation
    statuses = bed.journal.of("daemonsets.apps.kruise.io/status")
    assert metric(bed.controller, "kruise_ds_status_updates_total", result="success") == len(statuses)
    assert metric(bed.controller, "kruise_ds_template_dry_runs_total", result="accepted") == len(
        bed.journal.of("pods", "probe")
    )
    assert metric(bed.controller, SECONDS, method="recreate") == 3
    assert metric(bed.controller, SECONDS, method="surge") == 0


async def test_a_surge_then_in_place_updates_of_pods_without_the_readiness_gate(bed: Bed) -> None:
    await counting(bed, rolling={"maxSurge": 1, "maxUnavailable": 0})
    await bed.update(V2)
    await bed.idle()
    assert metric(bed.controller, SECONDS, method="surge") == 3
    assert metric(bed.controller, SECONDS, method="recreate") == 0
    await bed.edit(
        {"updateStrategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1, "rollingUpdateType": IN_PLACE}}}
    )
    await bed.update(V3)
    await bed.idle()
    assert metric(bed.controller, SECONDS, method="surge") == 3
    assert metric(bed.controller, SECONDS, method="recreate") == 3
    assert metric(bed.controller, "kruise_daemonset_in_place_fallbacks_total", reason="ReadinessGate") == 3


async def test_watches_tasks_and_the_probe_that_looks_at_them(bed: Bed) -> None:
    follow_real_time()
    await bed.controller.stop()
    bed.controller.options = ProcessOptions(measures_lag=True, freezes_garbage=False, watchdog=None)
    health = free_port()
    settings = msgspec.structs.replace(elected(bed), health_address=Address(host="127.0.0.1", port=health))
    bed.controller.start(settings)
    await bed.deploy(daemonset(), nodes=1)
    counts = {"worker": settings.workers, "reflector": 4, "heartbeat": 1, "events": 1, "lease": 1}
    for kind, count in counts.items():
        assert metric(bed.controller, "kruise_ds_tasks", kind=kind) == count, kind
    for resource in ("daemonsets", "pods", "nodes", "controllerrevisions"):
        told = metric(bed.controller, "kruise_ds_informer_last_contact_timestamp_seconds", resource=resource)
        assert 0 <= bed.clock() - told < 60, resource
    assert await get(f"http://127.0.0.1:{health}/healthz?verbose") == (
        200,
        "[+]event-loop ok\n[+]tasks ok\nhealthz check passed\n",
    )
    worker = next(task for task in asyncio.all_tasks() if task.get_name() == "worker-0")
    worker.cancel()
    await asyncio.wait([worker])
    status, body = await get(f"http://127.0.0.1:{health}/healthz")
    assert status == 503
    assert "[-]tasks failed: worker-0 ended\n" in body


async def test_another_writer_of_our_status_is_counted_named_and_left_alone(
    real_bed: Bed, plane: ControlPlane
) -> None:
    bed = real_bed
    await counting(bed)
    connection = connection_to(plane, plane.admin)
    async with (
        open_transport(connection, "kruise-manager") as theirs,
        open_transport(connection, "kubectl-edit") as hand,
    ):
        foreign = "kruise_ds_foreign_status_writes_total"
        await asyncio.sleep(1.1)
        await Api(hand, bed.api.namespace).patch(DAEMONSETS, "agent", {"status": {"numberReady": 1}}, sub="status")
        await bed.status(ready=3)
        await bed.idle()
        assert metric(bed.controller, foreign) == 0, "a person is no controller"
        await asyncio.sleep(1.1)
        await Api(theirs, bed.api.namespace).patch(DAEMONSETS, "agent", {"status": {"numberReady": 2}}, sub="status")
        told = await bed.event("ForeignStatusWrite")
        assert "'kruise-manager' wrote this status too" in told["message"]
        assert metric(bed.controller, foreign) == 1
        bed.journal.clear()
        before = uids(await bed.pods())
        await bed.set_image(V2)
        await bed.idle(3)
        assert [str(write) for write in bed.journal.writes if write.resource != "events"] == []
        assert (await bed.daemonset())["status"]["numberReady"] == 2
        assert uids(await bed.pods()) == before
