"""Writes that got no answer, and may yet come through, or have."""

from __future__ import annotations

import pytest

from tests.beds.api import PODS
from tests.beds.controller.opening import simulated
from tests.beds.objects import V2, daemonset
from tests.beds.simulator.faults import Answer, LateRequest, LateWatch, LoseAnswer, LoseRequest, Rule
from tests.system.replay import film

LATE = Rule(verb="watch", resource="pods", effect=LateWatch(seconds=5))
DONE = Rule(verb="delete", resource="pods", nth=(1,), effect=LoseAnswer())
BLIND = Rule(verb="get", resource="pods", nth=(1,), effect=LoseRequest())


@pytest.mark.parametrize("again", [Answer(403), Answer(500), Answer(503)])
@pytest.mark.parametrize("blind", [(), (BLIND,)], ids=["it can look", "it cannot look"])
async def test_no_other_pod_goes_while_a_deletion_is_in_doubt(again: Answer, blind: tuple[Rule, ...]) -> None:
    refused = Rule(verb="delete", resource="pods", nth=(2, 3, 4), effect=again)
    async with simulated(LATE, DONE, refused, *blind, latency=0.02) as bed:
        bed.patience = 3600.0
        nodes = await bed.deploy(daemonset(), nodes=4)
        history = await film(bed)
        await bed.update(V2)
        await bed.runs_on(*nodes, image=V2)
        assert min(len(served) for served in await history.served()) == 3, "maxUnavailable is 1"


async def test_a_create_that_comes_through_late_makes_no_second_new_pod_although_the_old_one_has_gone() -> None:
    """While surging: a pod of the new revision is on its way when the server cannot be reached any more."""
    late = Rule(verb="create", resource="pods", nth=(5,), effect=LateRequest(seconds=5))
    away = Rule(verb="create", resource="pods", nth=tuple(range(5, 12)), effect=LoseRequest())
    async with simulated(late, away, latency=0.02) as bed:
        nodes = await bed.deploy(daemonset(rolling={"maxSurge": 1}), nodes=3)
        history = await film(bed)
        await bed.set_image(V2)
        while not bed.journal.of("pods", "create", failed=True):
            await bed.journal.news(bed.patience)
        await bed.api.delete(PODS, (await bed.pods())["node-2"]["metadata"]["name"])
        await bed.settled()
        await bed.runs_on(*nodes, image=V2)
        await bed.idle(10.0)
        assert await history.crowded(same_image=True) == []
