"""The clock of the controller's machine is set while something waits: every wait lasts as long as it would have."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from tests.beds.api import DAEMONSETS
from tests.beds.controller.opening import simulated
from tests.beds.objects import V2, daemonset
from tests.beds.simulator.faults import Answer, Rule
from tests.beds.virtual_time import now

HOUR = 3600.0
FORBIDDEN = Answer(403, reason="Forbidden", message="the webhook says no")


@pytest.mark.parametrize("by", [-HOUR, HOUR], ids=["back", "ahead"])
async def test_a_refused_create_is_tried_again_as_soon_as_otherwise(by: float) -> None:
    """Four refusals are worth 0, 1, 2 and 4 seconds; then the node gets its pod."""
    refused = Rule(verb="create", resource="pods", nth=(1, 2, 3, 4), effect=FORBIDDEN)
    async with simulated(refused, latency=0.01) as bed:
        await bed.add_nodes(1)
        began = now()
        await bed.api.create(DAEMONSETS, daemonset())
        await asyncio.sleep(2.0)  # of virtual time: in the middle of a wait
        bed.controller.ahead = by
        await bed.settled()
        assert 7.0 <= now() - began < 15.0


@pytest.mark.parametrize("by", [-HOUR, HOUR], ids=["back", "ahead"])
async def test_a_refused_template_is_asked_about_again_after_a_minute(by: float) -> None:
    refused = Rule(verb="create", resource="pods", nth=(3, 4), effect=FORBIDDEN)
    async with simulated(refused, latency=0.01) as bed:
        await bed.add_nodes(2)
        bed.patience = 600.0
        await bed.deploy(daemonset())
        began = now()
        await bed.set_image(V2)
        await bed.event("TemplateRefused")
        bed.controller.ahead = by
        await bed.runs_on("node-0", "node-1", image=V2)
        assert 60.0 <= now() - began < 75.0


@pytest.mark.parametrize("restarted", [False, True], ids=["meanwhile", "and a restart"])
async def test_old_pods_are_ready_for_as_long_as_they_were_and_go_one_at_a_time(restarted: bool) -> None:
    """With a clock that is set back they say that they will be ready in an hour."""
    async with simulated(latency=0.01) as bed:
        bed.patience = 600.0
        nodes = await bed.deploy(daemonset(minReadySeconds=30), nodes=5)
        bed.controller.ahead = -HOUR
        if restarted:
            await bed.controller.kill()
            bed.controller.start()
        await bed.set_image(V2)
        await bed.runs_on(*nodes, image=V2)
        went = bed.journal.of("pods", "delete")
        assert [one.node for one in went] == nodes[::-1]
        assert min(later.at - before.at for before, later in pairwise(went)) >= 30.0
