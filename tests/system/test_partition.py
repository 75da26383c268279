"""Which nodes may have the new version: partition and selector."""

from __future__ import annotations

from typing import Any

import pytest

from tests.beds.controller.bed import Bed
from tests.beds.controller.waves import UNREADY, all_ready, both, built, keeps_two, layout, lose, roll, unready, wave
from tests.beds.nodes import Behaviour
from tests.beds.objects import V2, daemonset
from tests.system.both import both_beds
from tests.system.monitor import monitoring

CANARY = {"matchLabels": {"canary": "yes"}}


@pytest.mark.parametrize(
    ("state", "canary", "rolling", "order"),
    [
        ("v1 v2 v1", [], {}, [2, 0]),
        ("v2 v1 v1", [], {"partition": 1}, [2]),
        ("v1 v2 v1 v1", [2], {"partition": 1, "selector": CANARY}, [2]),
        ("v1 v2 v1 v1", [0, 2], {"selector": CANARY}, [2, 0]),
        ("v1 v1 v2 v1", [0, 1], {"partition": 2, "selector": CANARY}, [1]),
    ],
)
async def test_who_has_it_comes_first_then_selected_nodes_by_descending_names(
    bed: Bed, state: str, canary: list[int], rolling: dict[str, Any], order: list[int]
) -> None:
    await built(bed, state, canary=canary, new=daemonset(rolling={"maxUnavailable": 1, **rolling}))
    async with monitoring(bed, most_unavailable=1):
        bed.controller.start()
        for number in order:
            await wave(bed, both(number))
            await all_ready(bed)
        await wave(bed, "")


async def test_a_node_whose_old_pod_is_going_has_its_turn_when_that_is_gone(bed: Bed) -> None:
    new = daemonset(rolling={"maxUnavailable": 1, "selector": CANARY})
    await built(bed, "v1 v2 v1 v1", canary=[0, 2], new=new)
    going = (await bed.pods())["node-2"]
    bed.nodes.behave("node-2", Behaviour(ready=None, terminate=None))
    await lose(bed, 2)
    bed.controller.start()
    await wave(bed, "")
    await bed.nodes.gone(going)
    await wave(bed, "+2")
    await all_ready(bed)
    await wave(bed, both(0))
    assert await layout(bed) == "v2 v2 v2 v1"


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


@pytest.mark.parametrize(("partition", "count", "moved"), [("35%", 10, 7), ("30%", 5, 4), ("19%", 5, 5)])
async def test_percentages_round_down(bed: Bed, partition: str, count: int, moved: int) -> None:
    await bed.add_nodes(count)
    await bed.deploy(daemonset(rolling={"maxUnavailable": "100%", "partition": partition}))
    async with monitoring(bed):
        await bed.set_image(V2)
        await wave(bed, both(*range(count - moved, count)))


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


@pytest.mark.parametrize("limit", [{"maxUnavailable": 2}, {"maxSurge": 2}])
async def test_a_lost_current_pod_keeps_its_place_also_far_down_the_order(bed: Bed, limit: dict[str, Any]) -> None:
    """While its pod goes, and after it has gone: nobody else takes the one place that the partition leaves."""
    await built(bed, "v2 v1 v1 v1", new=daemonset(rolling={**limit, "partition": 3}))
    bed.controller.start()
    await wave(bed, "")
    async with monitoring(bed, most_unavailable=1):
        going = (await bed.pods())["node-0"]
        bed.nodes.behave("node-0", Behaviour(terminate=None))
        await lose(bed, 0)
        await wave(bed, "+0" if "maxSurge" in limit else "")
        await bed.nodes.gone(going)
        await wave(bed, "" if "maxSurge" in limit else "+0")
    assert await layout(bed) == "v2 v1 v1 v1"


async def test_an_unavailable_pod_outside_the_selection_counts(bed: Bed) -> None:
    await bed.add_nodes(4)
    for node in ("node-2", "node-3"):
        await bed.label_node(node, canary="yes")
    await bed.deploy(daemonset(rolling={"maxUnavailable": 1, "selector": CANARY}))
    bed.nodes.behave("*", UNREADY)
    await unready(bed, 0)
    async with monitoring(bed, most_unavailable=1):
        await bed.set_image(V2)
        await wave(bed, "")
        await all_ready(bed)
        await wave(bed, both(3))
