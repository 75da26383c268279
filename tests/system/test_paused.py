"""A rollout that pauses, alone and with selector and partition, and is edited in its middle."""

from __future__ import annotations

from tests.beds.controller.bed import Bed
from tests.beds.controller.waves import UNREADY, all_ready, both, layout, lose, roll, wave
from tests.beds.objects import V2, V3, daemonset
from tests.system.both import both_beds
from tests.system.monitor import monitoring

CANARY = {"matchLabels": {"canary": "yes"}}


@both_beds
async def test_all_but_the_update_goes_on_with_old_pods(bed: Bed) -> None:
    """Added nodes, lost and failed pods, nodes that fall out; then it goes on where it stopped."""
    for number in range(4):
        await bed.nodes.add(f"node-{number}", labels={"agents": "yes"})
    await bed.deploy(daemonset(pod={"nodeSelector": {"agents": "yes"}}, rolling={"maxUnavailable": 1}))
    bed.nodes.behave("*", UNREADY)
    async with monitoring(bed):
        await bed.set_image(V2)
        await wave(bed, both(3))
        await roll(bed, paused=True)
        await bed.seen()  # before its new pod gets ready, or another node has its turn
        bed.nodes.behave("*", None)
        await wave(bed, "")
        await bed.nodes.add("node-4", labels={"agents": "yes"})
        await wave(bed, "+4")
        await lose(bed, 0)
        await wave(bed, "+0")
        await bed.label_node("node-1", agents="no")
        await wave(bed, "-1")
        await bed.nodes.fail((await bed.pods())["node-2"])
        await wave(bed, both(2))
        await lose(bed, 3)
        await wave(bed, "+3")
        assert await layout(bed) == "v1 - v1 v2 v1"
        await roll(bed, paused=False)
        await wave(bed, both(4, 2, 0))
    assert await layout(bed) == "v2 - v2 v2 v2"


async def test_a_template_that_is_edited_in_the_pause_is_the_one_that_rolls(bed: Bed) -> None:
    await bed.deploy(daemonset(), nodes=3)
    bed.nodes.behave("*", UNREADY)
    async with monitoring(bed, most_unavailable=1):
        await bed.set_image(V2)
        await wave(bed, both(2))
        await roll(bed, paused=True)
        await bed.set_image(V3)
        await wave(bed, "")
        await all_ready(bed)
        await wave(bed, "")
        assert await layout(bed) == "v1 v1 v2"
        bed.nodes.behave("*", None)
        await roll(bed, paused=False)
        await wave(bed, both(2, 1, 0))
    assert await layout(bed) == "v3 v3 v3"


async def test_a_node_that_gets_the_label_in_the_middle_is_updated(bed: Bed) -> None:
    await bed.deploy(daemonset(rolling={"maxUnavailable": 1, "selector": CANARY}), nodes=3)
    async with monitoring(bed, most_unavailable=1):
        await bed.set_image(V2)
        await wave(bed, "")
        await bed.label_node("node-1", canary="yes")
        await wave(bed, both(1))


async def test_selector_and_partition_and_pause_together(bed: Bed) -> None:
    """The partition counts over all nodes, the selector says which of them; a pause stops both."""
    await bed.add_nodes(5)
    for node in ("node-0", "node-1", "node-2"):
        await bed.label_node(node, canary="yes")
    await bed.deploy(daemonset(rolling={"maxUnavailable": 2, "selector": CANARY, "partition": 3}))
    async with monitoring(bed, most_unavailable=2):
        await bed.set_image(V2)
        await wave(bed, both(2, 1))
        await roll(bed, paused=True)
        await roll(bed, partition=0)
        await wave(bed, "")
        await roll(bed, paused=False)
        await wave(bed, both(0))
        await roll(bed, selector=None, partition=1)
        await wave(bed, both(4))
        await roll(bed, selector=CANARY, partition=0)
        await wave(bed, "")
        await roll(bed, selector=None)
        await wave(bed, both(3))
