"""Which nodes may have the new version: partition and selector."""

from __future__ import annotations

from typing import Any

import pytest

from tests.beds.controller.bed import Bed
from tests.beds.controller.waves import both, built, keeps_two, layout, lose, roll, wave
from tests.beds.objects import V2, daemonset
from tests.system.both import both_beds
from tests.system.monitor import monitoring

CANARY = {"matchLabels": {"canary": "yes"}}


@pytest.mark.parametrize("limit", [{"maxUnavailable": 4}, {"maxSurge": 4}])
async def test_partition_walks_down_by_descending_names_and_never_back(bed: Bed, limit: dict[str, Any]) -> None:
    await bed.deploy(daemonset(rolling={**limit, "partition": 100}), nodes=4)
    async with monitoring(bed):
        await bed.set_image(V2)
        await wave(bed, "")
        for partition, moved in ((3, [3]), ("50%", [2]), (4, []), ("100%", []), (0, [1, 0])):
            await roll(bed, partition=partition)
            await wave(bed, both(*moved))
    assert await layout(bed) == "v2 v2 v2 v2"


@both_beds
async def test_a_lost_pod_comes_back_old_and_the_partition_goes_on_where_it_was(bed: Bed) -> None:
    await bed.deploy(daemonset(rolling={"maxUnavailable": 4, "partition": 2}), nodes=4)
    async with monitoring(bed):
        await keeps_two(bed)
        await roll(bed, partition=1)
        await wave(bed, both(1))
        assert await layout(bed) == "v1 v2 v2 v2"
        await roll(bed, partition=0)
        await wave(bed, both(0))


@pytest.mark.parametrize(
    ("rolling", "act", "moves", "after"),
    [
        ({"partition": "80%"}, "lose 0", "+0", "v1 v1 v1 v2"),
        ({"partition": "80%"}, "lose 3", "+3", "v1 v1 v1 v2"),
        ({"partition": "80%"}, "add", "+4", "v1 v1 v1 v2 v1"),
        ({"partition": 3}, "add", "+4", "v1 v1 v1 v2 v2"),
        ({"paused": True}, "lose 0", "+0", "v1 v1 v1 v2"),
        ({"paused": True}, "lose 3", "+3", "v1 v1 v1 v2"),
        ({"paused": True}, "add", "+4", "v1 v1 v1 v2 v1"),
        ({"selector": CANARY}, "lose 0", "+0", "v1 v1 v1 v2"),
        ({"selector": CANARY}, "add", "+4", "v1 v1 v1 v2 v1"),
        ({"partition": 3}, "raise", "", "v1 v1 v1 v2"),
        ({"selector": CANARY}, "unlabel", "", "v1 v1 v1 v2"),
        ({"selector": CANARY}, "unlabel lose 3", "+3", "v1 v1 v1 v2"),
        ({"partition": 3, "maxSurge": 2}, "lose 0", "+0", "v1 v1 v1 v2"),
        ({"partition": 3, "maxSurge": 2}, "lose 3", "+3", "v1 v1 v1 v2"),
    ],
)
async def test_what_was_promised_to_stay_old_stays_old(
    bed: Bed, rolling: dict[str, Any], act: str, moves: str, after: str
) -> None:
    """node-3 has v2 and the others v1, and the spec wants it so; then something happens."""
    await built(bed, "v1 v1 v1 v2", canary=[3], new=daemonset(rolling=rolling))
    bed.nodes.behave("*", None)
    bed.controller.start()
    await wave(bed, "")
    async with monitoring(bed):
        if "unlabel" in act:
            await bed.label_node("node-3", canary=None)
        if "raise" in act:
            await roll(bed, partition=4)
        if "add" in act:
            await bed.nodes.add("node-4")
        if "lose" in act:
            await lose(bed, int(act[-1]))
        await wave(bed, moves)
    assert await layout(bed) == after
