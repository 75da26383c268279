"""What a rollout does when its own settings change in its middle."""

from __future__ import annotations

import pytest

from tests.beds.api import Object
from tests.beds.controller.bed import Bed, uids
from tests.beds.controller.waves import UNREADY, all_ready, both, layout, lose, roll, wave
from tests.beds.objects import V1, V2, daemonset
from tests.system.both import both_beds
from tests.system.monitor import monitoring

NO_SURGE = {"maxUnavailable": 1, "maxSurge": 0}
SURGE = {"maxUnavailable": 0, "maxSurge": 1}
ON_DELETE = {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}
ROLLING = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": NO_SURGE}}


async def begun(bed: Bed, count: int, first: str, **rolling: object) -> None:
    """A rollout to v2 whose first wave is made, and whose new pods do not get ready by themselves."""
    await bed.add_nodes(count)
    await bed.deploy(daemonset(rolling=rolling))
    bed.nodes.behave("*", UNREADY)
    await bed.set_image(V2)
    await wave(bed, first)


@both_beds
async def test_from_none_to_surge_the_rest_gets_partners(bed: Bed) -> None:
    await begun(bed, 3, both(2), maxUnavailable=1)
    async with monitoring(bed, most_unavailable=1):
        await roll(bed, **SURGE)
        await wave(bed, "+1")
        await all_ready(bed)
        await wave(bed, "-1 +0")
    assert await layout(bed) == "v1+v2 v2 v2"


@both_beds
async def test_to_on_delete_and_back(bed: Bed) -> None:
    await begun(bed, 4, both(3), maxUnavailable=1)
    async with monitoring(bed, most_unavailable=1):
        await bed.edit(ON_DELETE)
        await bed.seen()
        await all_ready(bed)
        await wave(bed, "")
        await lose(bed, 0)
        await wave(bed, "+0")
        assert await layout(bed) == "v2 v1 v1 v2"
        await bed.edit(ROLLING)
        await wave(bed, "")  # node-0 is not ready yet
        await all_ready(bed)
        await wave(bed, both(2))


async def test_to_in_place_and_back(bed: Bed) -> None:
    """Pods are recreated within the same budget either way."""
    await begun(bed, 3, both(2), maxUnavailable=1)
    async with monitoring(bed, most_unavailable=1):
        await roll(bed, rollingUpdateType="InPlaceIfPossible")
        await wave(bed, "")
        await all_ready(bed)
        await wave(bed, both(1))
        await roll(bed, rollingUpdateType="Standard")
        await wave(bed, "")
        await all_ready(bed)
        await wave(bed, both(0))


@pytest.mark.parametrize("limits", [NO_SURGE, SURGE])
async def test_back_to_the_first_template_half_way(bed: Bed, limits: Object) -> None:
    """Its revision gets a new number and no new name, and whoever still is of it stays."""
    await bed.deploy(daemonset(rolling={**limits, "partition": 2}), nodes=4)
    before, names = uids(await bed.pods()), [one["metadata"]["name"] for one in await bed.revisions()]
    async with monitoring(bed, most_unavailable=limits["maxUnavailable"]):
        await bed.set_image(V2)
        await wave(bed, both(3, 2))
        await roll(bed, partition=0, paused=True)
        await bed.set_image(V1)
        await wave(bed, "")
        await roll(bed, paused=False)
        await wave(bed, both(3, 2))
    assert await layout(bed) == "v1 v1 v1 v1"
    after = uids(await bed.pods())
    assert {node for node in after if after[node] != before[node]} == {"node-2", "node-3"}
    assert [one["revision"] for one in await bed.revisions()] == [2, 3]
    assert (await bed.revisions())[-1]["metadata"]["name"] == names[0]


async def test_a_limit_that_is_raised_and_lowered(bed: Bed) -> None:
    await begun(bed, 5, both(4), maxUnavailable=1)
    async with monitoring(bed, most_unavailable=3):
        await roll(bed, maxUnavailable=3)
        await wave(bed, both(3, 2))
        await roll(bed, maxUnavailable="20%")
        await wave(bed, "")
        await all_ready(bed, 4, 3)
        await wave(bed, "")
        await all_ready(bed)
        await wave(bed, both(1))
