"""An etcd that is restored from a backup: versions go back, and what we have written since then never was
(on the simulator, in virtual time)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.beds.api import CONFIGMAPS, PODS
from tests.beds.controller.bed import Bed
from tests.beds.controller.opening import simulated
from tests.beds.objects import V1, V2, daemonset
from tests.beds.simulator.faults import LateWatch, Rule
from tests.beds.simulator.store import Backup
from tests.beds.virtual_time import now

NODES = tuple(f"node-{number}" for number in range(4))
LATE = Rule(verb="watch", resource="pods", effect=LateWatch(seconds=3))
SOON = 120.0
"""Seconds until the watches have found out; then nothing keeps the controller."""


@asynccontextmanager
async def deployed(*faults: Rule) -> AsyncIterator[Bed]:
    """A DaemonSet that runs on four nodes."""
    async with simulated(*faults, latency=0.02) as bed:
        bed.patience = 600.0
        await bed.add_nodes(len(NODES))
        await bed.deploy(daemonset())
        yield bed


async def much_happens(bed: Bed) -> None:
    """So that no version of before is reached again."""
    for number in range(500):
        await bed.api.create(CONFIGMAPS, {"metadata": {"name": f"something-{number}"}})


def restore(bed: Bed, backup: Backup) -> None:
    bed.simulator.link.drop_watches()  # what was on its way is lost
    bed.simulator.cluster.store.restore(backup)


async def test_a_status_of_before_is_forgotten() -> None:
    async with deployed() as bed:
        backup = bed.simulator.cluster.store.backup()
        await much_happens(bed)
        await bed.update(V2)
        await bed.idle(10)
        restore(bed, backup)
        await asyncio.sleep(SOON)
        await bed.runs_on(*NODES, image=V1)
        bed.journal.clear()
        await bed.update(V2)
        await bed.runs_on(*NODES, image=V2)
        assert bed.journal.failed == [], "a status that refers to what never was is refused"
        assert bed.simulator.cluster.store.version < backup.version + 500, "no version of before was reached"


async def test_writes_that_never_were_are_not_waited_for() -> None:
    async with deployed(LATE) as bed:
        lost = (await bed.pods())["node-1"]["metadata"]["name"]
        await bed.api.delete(PODS, lost)
        backup = bed.simulator.cluster.store.backup()
        await much_happens(bed)
        await bed.runs_on(*NODES)
        await asyncio.sleep(0.1)
        restore(bed, backup)
        began = now()
        await bed.runs_on(*NODES)
        assert now() - began <= SOON
        assert bed.simulator.cluster.store.version < backup.version + 500, "no version of before was reached"


async def test_a_deletion_that_never_was_is_not_waited_for() -> None:
    async with deployed(LATE) as bed:
        await bed.set_image(V2)
        backup = bed.simulator.cluster.store.backup()
        await much_happens(bed)
        await bed.until(PODS, lambda found: "" if len(found) < 4 else "nothing is deleted", "one is deleted")
        restore(bed, backup)
        began = now()
        await bed.runs_on(*NODES, image=V2)
        assert now() - began <= SOON
        assert bed.simulator.cluster.store.version < backup.version + 500, "no version of before was reached"
