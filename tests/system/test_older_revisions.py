"""What nodes get that may not hold the current revision: as it was, as most are, and only where it runs.

The controller remembers what was where only while it runs, so some of it happens while none does.
"""

from __future__ import annotations

import pytest

from tests.beds.api import DAEMONSETS, NODES, Object
from tests.beds.controller.bed import Bed
from tests.beds.controller.opening import simulated
from tests.beds.controller.waves import layout, lose, roll
from tests.beds.objects import V1, V2, V3, daemonset

POOL = {"pool": "a"}
RESERVED = {"key": "reserved", "effect": "NoSchedule"}


async def running(bed: Bed, count: int = 4, **rolling: object) -> None:
    """v1 on so many nodes."""
    bed.patience = 600.0
    await bed.add_nodes(count)
    new = daemonset()
    new["spec"]["updateStrategy"]["rollingUpdate"] = rolling
    await bed.api.create(DAEMONSETS, new)
    await bed.settled()


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


@pytest.mark.parametrize("watched", [True, False], ids=["seen", "while no controller ran"])
async def test_a_lost_pod_does_not_come_back_as_a_revision_that_was_held_and_given_up(watched: bool) -> None:
    async with simulated() as bed:
        await running(bed)
        await roll(bed, partition=4)
        for image in (V2, V3):
            await bed.set_image(image)
            await bed.phase("Held")
        await lost(bed, 1, watched=watched)
        assert await layout(bed) == "v1 v1 v1 v1"


@pytest.mark.parametrize("watched", [True, False], ids=["seen", "while no controller ran"])
async def test_after_a_revert_under_a_partition_lost_pods_and_new_nodes_are_not_canaries(watched: bool) -> None:
    async with simulated() as bed:
        await running(bed)
        await roll(bed, partition=3)
        await bed.set_image(V2)
        await bed.phase("Held")
        assert await layout(bed) == "v1 v1 v1 v2"
        await bed.set_image(V1)
        await bed.phase("Held")
        await lost(bed, 0, watched=watched)
        await bed.nodes.add("node-4")
        await bed.runs_on(*(f"node-{number}" for number in range(5)))
        assert await layout(bed) == "v1 v1 v1 v2 v1"


@pytest.mark.parametrize("surge", [1, "50%"])
async def test_of_a_template_that_no_node_runs_any_more_surging_leaves_no_old_pod(surge: int | str) -> None:
    async with simulated() as bed:
        await running(bed, maxSurge=surge, maxUnavailable=0)
        for name in bed.nodes.names:
            await bed.taint(name, RESERVED)
        await bed.status(desired=0)
        assert await layout(bed) == "v1 v1 v1 v1", "they may stay, until the template changes"
        await bed.set_image(V2)
        await bed.runs_on()
        await bed.phase("Healthy")
        assert await layout(bed) == "- - - -"


async def lost(bed: Bed, number: int, *, watched: bool) -> None:
    """The pod of that node is gone, and another one has come."""
    if not watched:
        await bed.controller.kill()
    await lose(bed, number)
    if not watched:
        await bed.idle(5)
        bed.controller.start()
    await bed.runs_on(*bed.nodes.names)
    await bed.idle(60)
