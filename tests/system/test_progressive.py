"""Which nodes get their first pod, and of which revision, while a partition holds others back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.beds.api import DAEMONSETS, NODES, Object
from tests.beds.controller.bed import Bed
from tests.beds.controller.opening import simulated
from tests.beds.controller.waves import both, layout, lose, roll, wave
from tests.beds.objects import V2, daemonset
from tests.system.both import both_beds
from tests.system.monitor import monitoring

ANNOTATION = "daemonset.kruise.io/progressive-create-pod"


def progressive(how: str, **rolling: Any) -> Object:
    """Asked for by the `field`, by the `annotation`, or by an annotation that the field contradicts (`neither`)."""
    new = daemonset(rolling=rolling)
    if how != "field":
        new["metadata"]["annotations"] = {ANNOTATION: "true"}
    if how != "annotation":
        new["spec"]["scaleStrategy"] = {"partitionedScaling": how == "field"}
    return new


async def first(bed: Bed, how: str, **rolling: Any) -> None:
    """Four nodes, and the DaemonSet is new."""
    await bed.add_nodes(4)
    await bed.api.create(DAEMONSETS, progressive(how, **rolling))


@pytest.mark.parametrize("how", ["field", "annotation"])
async def test_a_first_deployment_walks_up_as_the_partition_comes_down(bed: Bed, how: str) -> None:
    """A percentage counts from the nodes that there are, also when no status has told their number yet."""
    await first(bed, how, partition="50%")
    async with monitoring(bed):
        await wave(bed, "+0 +1")
        for partition, moves in ((2, ""), ("49%", "+2"), (3, "")):
            await roll(bed, partition=partition)
            await wave(bed, moves)
        await lose(bed, 1)
        await wave(bed, "+1")
        await roll(bed, partition=0)
        await wave(bed, "+3")
    assert await layout(bed) == "v1 v1 v1 v1"


@both_beds
async def test_creation_and_update_share_the_places(bed: Bed) -> None:
    """An added node is created where a place is left, and only what is left after that is updated."""
    await bed.deploy(progressive("field", maxUnavailable=3, partition=0), nodes=3)
    async with monitoring(bed):
        await roll(bed, partition=3)
        await bed.set_image(V2)
        await wave(bed, "")
        await bed.nodes.add("node-3")
        await wave(bed, "+3")
        await roll(bed, partition=2)
        await wave(bed, both(2))
    assert await layout(bed) == "v1 v1 v2 v2"


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


async def test_nodes_the_older_revision_excludes_get_the_new_one_in_turn() -> None:
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


async def test_an_empty_node_gets_the_older_revision_once_it_may_run_there() -> None:
    async with simulated() as bed:
        await leaves_the_pool(bed, nodes=3, in_pool={0, 2}, partition=3)
        await bed.idle(600)
        assert await layout(bed) == "v1 - v1"
        await bed.api.patch(NODES, "node-1", {"metadata": {"labels": POOL}})
        await bed.runs_on("node-0", "node-1", "node-2")
        assert await layout(bed) == "v1 v1 v1"
