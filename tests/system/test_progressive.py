"""Where the partition limits creation too: `partitionedScaling`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.beds.api import DAEMONSETS, Object
from tests.beds.controller.bed import Bed
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
