"""Rollouts that the controller carries out step by step, judged by what is written to the API server."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.beds.controller.bed import Bed
from tests.beds.controller.waves import UNREADY, all_ready, both, layout, wave
from tests.beds.objects import V2, condition, daemonset
from tests.system.both import both_beds

ZONES = ("a", "b", "a", "b", "a", "b")
"""Of node-0 … node-5."""


async def deployed(bed: Bed, **rolling: Any) -> None:
    """A DaemonSet everywhere on these nodes; those of zone b carry the label canary too."""
    for number, zone in enumerate(ZONES):
        await bed.nodes.add(f"node-{number}", labels={"zone": zone, **({"canary": "yes"} if zone == "b" else {})})
    await bed.heard()
    await bed.deploy(daemonset(pod={"tolerations": [{"operator": "Exists"}]}, rolling=rolling))


@both_beds
async def test_nodes_are_updated_in_the_order_of_the_spec(bed: Bed) -> None:
    await deployed(bed, maxUnavailable=1, order=[{"matchLabels": {"canary": "yes"}}, {"groupBy": "zone"}])
    await bed.update(V2)
    assert [*bed.journal.deleted] == ["node-5", "node-3", "node-1", "node-4", "node-2", "node-0"]


@both_beds
async def test_one_failure_domain_is_updated_at_a_time_and_no_more_nodes_of_it_than_allowed(bed: Bed) -> None:
    domains = {"key": "zone", "maxUnavailable": 2, "maxDomains": 1}
    await deployed(bed, maxUnavailable=6, order=[{"groupBy": "zone"}], topology=domains)
    bed.nodes.behave("*", UNREADY)
    await bed.set_image(V2)
    for moved in ((4, 2), (0,), (5, 3), (1,)):
        await wave(bed, both(*moved))
        assert condition(await bed.daemonset(), "Progressing")["reason"] in ("TopologyInUse", "Updating")
        await all_ready(bed)
    assert await layout(bed) == "v2 v2 v2 v2 v2 v2"


async def test_a_rollout_ends_without_the_unreachable_nodes_that_may_be_left_out(bed: Bed) -> None:
    await deployed(bed, maxUnavailable=1, unreachableNodes={"leaveOut": 1})
    await bed.nodes.lose("node-5")
    await bed.set_image(V2)
    await wave(bed, both(4, 3, 2, 1, 0))
    done = await bed.phase("Healthy")
    assert (done["done"], done["target"], done["leftOut"]) == (5, 6, 1)
    assert "1 unreachable node is left out" in condition(await bed.daemonset(), "Ready")["message"]
    await bed.nodes.regain("node-5")
    await wave(bed, both(5))
    assert (await bed.phase("Healthy"))["leftOut"] == 0


async def test_a_rollout_waits_while_more_nodes_are_unreachable_than_may_be_left_out(bed: Bed) -> None:
    await deployed(bed, maxUnavailable=6, unreachableNodes={"leaveOut": 1})
    await bed.nodes.lose("node-5")
    await bed.nodes.lose("node-4")
    await bed.set_image(V2)
    await wave(bed, "")
    assert condition(await bed.daemonset(), "Progressing")["reason"] == "TooManyUnreachableNodes"
    await asyncio.sleep(1200)
    assert condition(await bed.daemonset(), "Stalled")["status"] == "False"
    await bed.nodes.regain("node-4")
    await wave(bed, both(4, 3, 2, 1, 0))
