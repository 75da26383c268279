"""The definition of our kind is deleted, and all DaemonSets with it, while nobody tells us (virtual time)."""

from __future__ import annotations

import asyncio

from tests.beds.api import DAEMONSETS, PODS
from tests.beds.controller.metrics import metric
from tests.beds.controller.opening import simulated
from tests.beds.objects import daemonset
from tests.beds.simulator import kinds

LATENCY = 0.02


async def test_no_pod_is_made_for_daemonsets_that_went_with_their_kind_and_they_may_come_back() -> None:
    async with simulated(latency=LATENCY) as bed:
        bed.patience = 600.0
        nodes = await bed.deploy(daemonset(), nodes=4)
        link, store = bed.simulator.link, bed.simulator.cluster.store
        link.up = False
        link.drop_watches()
        await asyncio.sleep(5)
        store.remove_kind(kinds.DAEMONSETS)
        link.up = True
        await asyncio.sleep(10)
        for pod in await bed.api.list(PODS):  # the garbage collector's work
            await bed.api.delete(PODS, pod["metadata"]["name"])
        await asyncio.sleep(60)
        assert bed.journal.created == []
        assert await bed.api.list(PODS) == []
        assert metric(bed.controller, "kruise_ds_informer_objects", resource="daemonsets") == 0

        store.add_kind(kinds.DAEMONSETS)
        await bed.api.create(DAEMONSETS, daemonset())
        await bed.runs_on(*nodes)
