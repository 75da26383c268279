"""What nodes get that may not hold the current revision: as it was, as most are, and only where it runs.

The controller remembers what was where only while it runs, so some of it happens while none does.
"""

from __future__ import annotations

from tests.beds.api import DAEMONSETS, NODES, Object
from tests.beds.controller.bed import Bed
from tests.beds.controller.opening import simulated
from tests.beds.controller.waves import layout, roll
from tests.beds.objects import V2, daemonset

POOL = {"pool": "a"}


async def message(bed: Bed, kind: str) -> str:
    conditions: list[Object] = (await bed.daemonset())["status"]["conditions"]
    return str(next(one["message"] for one in conditions if one["type"] == kind))


async def leaves_the_pool(bed: Bed, *, nodes: int, in_pool: set[int], partition: int) -> None:
    """v1 runs on the nodes of a pool only; v2, which may run anywhere, is rolled out under this partition."""
    bed.patience = 3600.0
    for number in range(nodes):
        await bed.nodes.add(f"node-{number}", labels=POOL if number in in_pool else {})
    new = daemonset()
    new["spec"]["template"]["spec"]["nodeSelector"] = POOL
    await bed.api.create(DAEMONSETS, new)
    await bed.settled()
    changed = daemonset(image=V2)["spec"]["template"]
    changed["spec"]["nodeSelector"] = None
    await bed.edit({"template": changed, "updateStrategy": {"rollingUpdate": {"partition": partition}}})


async def test_nodes_that_the_older_revision_excludes_hold_nothing_up_and_get_the_new_one_in_their_turn() -> None:
    async with simulated() as bed:
        await leaves_the_pool(bed, nodes=5, in_pool={2, 3, 4}, partition=2)
        await bed.phase("Held")
        assert await layout(bed) == "- - v2 v2 v2"
        for kind in ("Ready", "Progressing"):
            assert "2 nodes stay empty: revision " in await message(bed, kind)
        await bed.idle(600)
        assert await layout(bed) == "- - v2 v2 v2"
        await roll(bed, partition=0)
        await bed.phase("Healthy")
        assert await layout(bed) == "v2 v2 v2 v2 v2"


async def test_an_empty_node_gets_the_older_revision_as_soon_as_that_may_run_there() -> None:
    async with simulated() as bed:
        await leaves_the_pool(bed, nodes=3, in_pool={0, 2}, partition=3)
        await bed.idle(600)
        assert await layout(bed) == "v1 - v1"
        await bed.api.patch(NODES, "node-1", {"metadata": {"labels": POOL}})
        await bed.runs_on("node-0", "node-1", "node-2")
        assert await layout(bed) == "v1 v1 v1"
