"""A node gets its next program when the last one has ended: not before, and without waiting for the object to go."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from tests.beds.api import PODS, Object, closing
from tests.beds.objects import node_of
from tests.beds.real_node.node import LONG
from tests.real_node.bed import Bed
from tests.real_node.rollouts import deployed, settled

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("controller")]


async def end_of(bed: Bed, old: Object) -> str:
    """Delete the pod; returns its phase at the moment when the next one of its node appears, or "gone"."""
    uid, node = old["metadata"]["uid"], node_of(old)
    page = await bed.api.page(PODS)
    watch = bed.api.watch(PODS, silence=LONG, resourceVersion=page["metadata"]["resourceVersion"])
    phase = "Running"
    await bed.kubectl("delete", "pod", old["metadata"]["name"], "--wait=false")
    async with asyncio.timeout(LONG), aclosing(closing(watch)) as events:
        async for event in events:
            if event.type == "ADDED" and node_of(event.object) == node:
                return phase
            if event.object["metadata"]["uid"] == uid:
                phase = "gone" if event.type == "DELETED" else event.object["status"]["phase"]
    raise AssertionError("the watch ended")


async def test_two_programs_never_run_on_one_node(bed: Bed) -> None:
    """The old one takes two seconds to end, and says at its end how it went."""
    async with deployed(bed, environment={"STOP_SECONDS": "2"}):
        for pod in await bed.pods():
            assert await end_of(bed, pod) in ("Succeeded", "gone")
            await settled(bed)
    assert await bed.warnings() == []
