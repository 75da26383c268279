"""Another controller writes the status too: how long nothing of ours moves, in virtual time."""

from __future__ import annotations

import asyncio

from controller.api.managed import OURS
from controller.api.meta import rfc3339
from tests.beds.api import DAEMONSETS, Object
from tests.beds.controller.bed import Bed
from tests.beds.objects import V2, V3, daemonset
from tests.beds.virtual_time import clock


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
    await bed.set_image(image)
    await bed.settled()
    return round(min(write.at for write in bed.journal.writes if write.resource != "events") - written)


async def test_nothing_is_written_for_a_minute_then_the_work_goes_on_and_the_next_time_it_is_two(bed: Bed) -> None:
    bed.patience = 10_000.0
    await bed.add_nodes(3)
    await bed.deploy(daemonset())
    assert await pause_after(bed, V2) == 60
    assert await pause_after(bed, V3) == 120
    await bed.event("ForeignStatusWrite", "'kruise-manager'")


async def test_each_of_their_writes_begins_the_minute_anew(bed: Bed) -> None:
    bed.patience = 10_000.0
    await bed.add_nodes(3)
    await bed.deploy(daemonset())
    for _ in range(5):
        await they_write(bed)
        await asyncio.sleep(40)
    assert await pause_after(bed, V2) == 60


async def test_a_controller_that_is_started_anew_waits_for_the_rest_of_the_minute(bed: Bed) -> None:
    bed.patience = 10_000.0
    await bed.add_nodes(3)
    await bed.deploy(daemonset())
    written = await they_write(bed)
    await asyncio.sleep(20)
    await bed.controller.kill()
    bed.controller.start()
    await bed.set_image(V2)
    await bed.settled()
    assert round(min(write.at for write in bed.journal.writes if write.resource != "events") - written) == 60
