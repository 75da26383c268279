"""What the controller counts of its own work, held against what the API server saw of it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from controller.app import ProcessOptions
from controller.kube.transport import open_transport
from controller.settings import Address
from tests.beds.api import DAEMONSETS, PODS, Api
from tests.beds.control_plane import ControlPlane
from tests.beds.control_plane.access import get
from tests.beds.control_plane.processes import free_port
from tests.beds.controller.bed import Bed, uids
from tests.beds.controller.journal import Write
from tests.beds.controller.metrics import metric
from tests.beds.controller.opening import connection_to
from tests.beds.objects import V1, V2, V3, bare_pod, daemonset
from tests.beds.virtual_time import follow_real_time

OPERATIONS = "kruise_daemonset_pod_operations_total"
ROLLOUTS = "kruise_daemonset_rollouts_total"
IN_PLACE = "InPlaceIfPossible"
SECONDS = "kruise_ds_node_update_duration_seconds_count"


async def counting(bed: Bed, **spec: Any) -> None:
    """A DaemonSet on three nodes that the controller has deployed."""
    await bed.add_nodes(3)
    await bed.api.create(DAEMONSETS, daemonset(**spec))
    await bed.settled()
    await bed.phase("Healthy")
    await bed.idle()


def rollouts(bed: Bed) -> dict[str, float]:
    return {
        result: metric(bed.controller, ROLLOUTS, daemonset="agent", result=result)
        for result in ("completed", "rolled_back", "superseded")
    }


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


async def test_each_rollout_ends_once(bed: Bed) -> None:
    await counting(bed)
    assert rollouts(bed) == {"completed": 1, "rolled_back": 0, "superseded": 0}, "the deployment"
    await bed.edit({"updateStrategy": {"rollingUpdate": {"partition": 2}}})
    await bed.set_image(V2)
    await bed.phase("Held")
    assert rollouts(bed)["completed"] == 1, "held is not the end"
    await bed.set_image(V1)
    await bed.edit({"updateStrategy": {"rollingUpdate": {"partition": 0}}})
    await bed.settled()
    await bed.phase("Healthy")
    await bed.idle()
    assert rollouts(bed) == {"completed": 2, "rolled_back": 1, "superseded": 0}, "V2 went, V1 is back"
    await bed.edit({"updateStrategy": {"rollingUpdate": {"paused": True}}})
    await bed.set_image(V2)
    await bed.phase("Paused")
    await bed.set_image(V3)
    await bed.seen()
    await bed.idle()
    await bed.edit({"updateStrategy": {"rollingUpdate": {"paused": False}}})
    await bed.settled()
    await bed.phase("Healthy")
    await bed.idle()
    assert rollouts(bed) == {"completed": 3, "rolled_back": 1, "superseded": 1}
    assert metric(bed.controller, "kruise_ds_rollout_duration_seconds_count") == 5


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


async def test_what_is_counted_of_a_daemonset_starts_at_zero_and_goes_with_it(bed: Bed) -> None:
    await counting(bed)
    text = bed.controller.scrape()
    assert "reason=" not in "".join(line for line in text.splitlines() if "fallbacks_total{" in line)
    assert 'operation="orphan",result="error"} 0.0' in text
    await bed.api.delete(DAEMONSETS, "agent", options={"propagationPolicy": "Foreground"})
    await bed.until(DAEMONSETS, lambda found: "still there" if found else "", "agent gone")
    await bed.idle()
    assert 'daemonset="agent"' not in bed.controller.scrape()


async def test_watches_tasks_and_the_probe_that_looks_at_them(bed: Bed) -> None:
    follow_real_time()
    await bed.controller.stop()
    bed.controller.options = ProcessOptions(measures_lag=True, freezes_garbage=False, watchdog=None)
    health = free_port()
    settings = msgspec.structs.replace(bed.controller.settings, health_address=Address(host="127.0.0.1", port=health))
    bed.controller.start(settings)
    await bed.deploy(daemonset(), nodes=1)
    for kind, count in (("worker", settings.workers), ("reflector", 4), ("heartbeat", 1), ("events", 1)):
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
