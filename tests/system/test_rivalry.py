"""Another controller writes the status too: how long nothing of ours moves, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from controller.api.objects import OURS, rfc3339
from tests.beds.api import DAEMONSETS, Object
from tests.beds.controller.bed import Bed
from tests.beds.controller.journal import Journal, Recording
from tests.beds.controller.opening import simulated
from tests.beds.controller.running import Controller
from tests.beds.nodes import Behaviour
from tests.beds.objects import V2, V3, daemonset
from tests.beds.simulator.faults import FaultPlan, LateWatch, Rule
from tests.beds.simulator.transport import InProcess
from tests.beds.virtual_time import clock
from tests.system.monitor import monitoring

SLOW = Behaviour(start=0.5, ready=0.5, terminate=0.5)


def _writer(manager: str, seconds: float) -> Object:
    fields: Object = {"f:status": {"f:numberReady": {}}}
    return {
        "manager": manager,
        "subresource": "status",
        "operation": "Update",
        "time": rfc3339(clock() + seconds),
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }


async def they_write(bed: Bed) -> float:
    """What the real server notes of a write by OpenKruise's manager, now, and the write. Returns when it was."""
    ours, theirs = _writer(OURS, -1), _writer("kruise-manager", 0)
    for writers in ([ours], [ours, theirs]):
        await bed.api.patch(DAEMONSETS, "agent", {"metadata": {"managedFields": writers}})
    await bed.api.patch(DAEMONSETS, "agent", {"status": {"numberReady": 1}}, sub="status")
    return asyncio.get_running_loop().time()


async def pause_after(bed: Bed, image: str) -> int:
    """They write, somebody sets the image: the seconds until the first thing that we do."""
    written = await they_write(bed)
    bed.journal.clear()
    await bed.update(image)
    return round(min(write.at for write in bed.journal.writes if write.resource != "events") - written)


async def test_nothing_is_written_for_a_minute_and_the_next_time_for_two(bed: Bed) -> None:
    bed.patience = 10_000.0
    await bed.deploy(daemonset(), nodes=3)
    assert await pause_after(bed, V2) == 60
    assert await pause_after(bed, V3) == 120
    await bed.event("ForeignStatusWrite", "'kruise-manager'")


async def test_each_of_their_writes_begins_the_minute_anew(bed: Bed) -> None:
    bed.patience = 10_000.0
    await bed.deploy(daemonset(), nodes=3)
    for _ in range(5):
        await they_write(bed)
        await asyncio.sleep(40)
    assert await pause_after(bed, V2) == 60


async def test_a_restarted_controller_waits_for_the_rest_of_the_minute(bed: Bed) -> None:
    bed.patience = 10_000.0
    await bed.deploy(daemonset(), nodes=3)
    written = await they_write(bed)
    await asyncio.sleep(20)
    await bed.controller.kill()
    bed.controller.start()
    await bed.update(V2)
    assert round(min(write.at for write in bed.journal.writes if write.resource != "events") - written) == 60


@pytest.mark.parametrize("late", [0.0, 1.0, 3.0])
async def test_two_installations_keep_the_limits_together_and_come_to_rest(late: float) -> None:
    """They write by the same name, so neither leaves the DaemonSet to the other; they want the same, in one order."""
    async with simulated(latency=0.02, behaviour=SLOW) as bed, asyncio.TaskGroup() as tasks:
        bed.patience = 10_000.0
        nodes = await bed.deploy(daemonset(rolling={"maxUnavailable": 2}), nodes=6)
        faults = FaultPlan(Rule(verb="watch", effect=LateWatch(seconds=late)))
        others = Recording(InProcess(bed.simulator.cluster, latency=0.03, faults=faults), Journal())
        second = Controller(others, bed.api.namespace, tasks, clock=bed.clock)
        second.start()
        async with monitoring(bed, most_unavailable=2):
            for image in (V2, V3):
                await bed.set_image(image)
                await bed.runs_on(*nodes, image=image)
                await bed.settled()
        await bed.idle(60.0)
        written = bed.simulator.cluster.store.version
        await bed.idle(3600.0)
        assert bed.simulator.cluster.store.version == written
        await second.stop()
