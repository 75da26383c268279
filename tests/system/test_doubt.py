"""A deletion comes through without an answer, then is refused when tried again: the next node waits (D11, D24)."""

from __future__ import annotations

import pytest

from tests.beds.controller.opening import simulated
from tests.beds.objects import V2, daemonset
from tests.beds.simulator.faults import Answer, LateWatch, LoseAnswer, LoseRequest, Rule
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
        nodes = await bed.add_nodes(4)
        await bed.deploy(daemonset())
        history = await film(bed)
        await bed.set_image(V2)
        await bed.settled()
        await bed.runs_on(*nodes, image=V2)
        assert min(len(served) for served in await history.served()) == 3, "maxUnavailable is 1"
