"""A write that the server refuses again and again, whichever it is: the rest goes on (D11; virtual time)."""

from __future__ import annotations

import pytest

from tests.beds.api import DAEMONSETS, PODS
from tests.beds.controller.bed import uids
from tests.beds.controller.opening import simulated
from tests.beds.nodes import Behaviour
from tests.beds.objects import V1, V2, daemonset
from tests.beds.pods import image_of
from tests.beds.simulator.faults import Answer, Effect, NoConnection, Rule
from tests.beds.virtual_time import now
from tests.system.quota import full_quota

MINUTE, HOUR = 60.0, 3600.0
SLOW = Behaviour(start=0.3, ready=0.2, terminate=0.3)
WEBHOOK = Answer(500, reason="InternalError", message='failed calling webhook "policy.example.com": no endpoints')
COUNTED = Answer(403, reason="Forbidden", message="exceeded quota: objects, used: count/controllerrevisions=1")


@pytest.mark.parametrize("answer", [WEBHOOK, NoConnection()], ids=["a webhook is down", "nobody answers"])
async def test_a_dry_run_that_fails_is_tried_again_ever_later(answer: Effect) -> None:
    broken = Rule(verb="create", resource="pods", effect=answer)
    async with simulated(latency=0.02) as bed:
        bed.patience = 10 * MINUTE
        await bed.add_nodes(3)
        await bed.deploy(daemonset())
        bed.simulator.link.faults.add(broken)
        await bed.set_image(V2)
        await bed.seen()
        await bed.idle(MINUTE)
        tried = [write for write in bed.journal.writes if write.verb == "probe"]
        assert 2 <= len(tried) <= 20, "in a minute"
        bed.simulator.link.faults.remove(broken)
        bed.patience = HOUR
        await bed.runs_on("node-0", "node-1", "node-2", image=V2)


async def test_a_revision_that_cannot_be_stored_keeps_no_lost_pod_waiting() -> None:
    refused = Rule(verb="create", resource="controllerrevisions.apps", nth=tuple(range(2, 1000)), effect=COUNTED)
    async with simulated(refused, latency=0.02) as bed:
        bed.patience = HOUR
        nodes = await bed.add_nodes(3)
        await bed.deploy(daemonset())
        await bed.set_image(V2)
        await bed.seen()
        began = now()
        await bed.api.delete(PODS, (await bed.pods())["node-1"]["metadata"]["name"])
        pods = await bed.runs_on(*nodes)
        assert now() - began < 10.0
        assert image_of(pods["node-0"]) == image_of(pods["node-2"]) == V1, "nothing is updated meanwhile"


async def test_a_full_quota_stops_no_update() -> None:
    """Five nodes and room for four pods: the fifth create is refused for ever, and the four are updated."""

    async with simulated(latency=0.02, behaviour=SLOW) as bed:
        bed.patience = HOUR
        await bed.add_nodes(5)
        async with full_quota(bed, 4):
            await bed.api.create(DAEMONSETS, daemonset(rolling={"maxUnavailable": 2}))
            await bed.status(desired=5, available=4)
            before = set(uids(await bed.pods()).values())
            await bed.set_image(V2)
            await bed.status(observed=2, desired=5, available=4, updated=4)
            after = await bed.pods()
            assert len(after) == 4
            assert before.isdisjoint(uids(after).values())
        await bed.runs_on(*(f"node-{number}" for number in range(5)), image=V2)
