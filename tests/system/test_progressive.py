"""Where the partition limits creation too: `partitionedScaling`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.beds.api import DAEMONSETS, Object
from tests.beds.controller.bed import Bed
from tests.beds.controller.waves import both, built, layout, lose, roll, wave
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


@pytest.mark.parametrize(
    ("current", "old", "empty", "partition", "chosen"),
    [
        ([], [], range(10), 10, []),
        ([], [], range(10), 9, [0]),
        ([0], [], range(1, 10), 5, [1, 2, 3, 4]),
        ([], range(10), range(10, 20), 15, range(10, 15)),
        (range(5), range(5, 15), range(15, 20), 10, range(15, 20)),
        (range(5), [], range(5, 10), 100, []),
    ],
)
async def test_the_first_empty_nodes_get_the_places_that_are_left(
    bed: Bed,
    current: Sequence[int],
    old: Sequence[int],
    empty: Sequence[int],
    partition: int,
    chosen: Sequence[int],
) -> None:
    there = {**dict.fromkeys(current, "v2"), **dict.fromkeys(old, "v1"), **dict.fromkeys(empty, "-")}
    state = [there[number] for number in range(len(there))]
    await built(bed, " ".join(state), new=progressive("field", partition=partition))
    async with monitoring(bed):
        bed.controller.start()
        await wave(bed, " ".join(f"+{number}" for number in chosen))
    assert await layout(bed) == " ".join({**there, **dict.fromkeys(chosen, "v2")}.values())


async def test_without_it_every_empty_node_gets_a_pod_at_once(bed: Bed) -> None:
    await built(bed, "v2 v1 - -", new=daemonset(rolling={"partition": 3}))
    async with monitoring(bed):
        bed.controller.start()
        await wave(bed, "+2 +3")
    assert await layout(bed) == "v2 v1 v1 v1"


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


@pytest.mark.parametrize("how", ["field", "annotation"])
async def test_switched_off_again_all_nodes_get_their_pods(bed: Bed, how: str) -> None:
    await first(bed, how, partition=3)
    await wave(bed, "+0")
    if how == "field":
        await bed.edit({"scaleStrategy": None})
    else:
        await bed.api.patch(DAEMONSETS, "agent", {"metadata": {"annotations": {ANNOTATION: None}}})
    await wave(bed, "+1 +2 +3")


@pytest.mark.parametrize(
    ("how", "strategy"),
    [("neither", {"partition": 3}), ("field", {}), ("field", {"partition": "24%"}), ("on delete", {})],
)
async def test_nothing_is_limited(bed: Bed, how: str, strategy: Object) -> None:
    """The field wins over the annotation; a partition of nothing and OnDelete limit nothing."""
    await bed.add_nodes(4)
    new = progressive("field" if how == "on delete" else how, **strategy)
    if how == "on delete":
        new["spec"]["updateStrategy"] = {"type": "OnDelete"}
    await bed.api.create(DAEMONSETS, new)
    await wave(bed, "+0 +1 +2 +3")


@pytest.mark.parametrize(
    ("state", "partition", "number", "after"),
    [("v1 v1 v1", 3, 0, "v1 v1 v1"), ("v1 v1 v2", 2, 2, "v1 v1 v2"), ("v2 v1 -", 2, 0, "v2 v1 -")],
)
async def test_a_lost_pod_is_always_replaced_by_its_like(
    bed: Bed, state: str, partition: int, number: int, after: str
) -> None:
    await built(bed, state, new=progressive("field", partition=partition))
    bed.controller.start()
    await wave(bed, "")
    async with monitoring(bed):
        await lose(bed, number)
        await wave(bed, f"+{number}")
    assert await layout(bed) == after


@pytest.mark.parametrize("rolling", [{"paused": True}, {"selector": {"matchLabels": {"canary": "yes"}}}])
async def test_who_may_not_be_updated_gets_the_older_revision_while_there_is_room(bed: Bed, rolling: Object) -> None:
    await built(bed, "v1 v1 -", new=progressive("field", partition=3, **rolling))
    async with monitoring(bed):
        bed.controller.start()
        await wave(bed, "")
        await roll(bed, partition=1)
        await wave(bed, "+2")
    assert await layout(bed) == "v1 v1 v1"


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
