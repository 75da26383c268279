"""What a rollout does when its own settings change in its middle."""

from __future__ import annotations

import pytest

from tests.beds.api import Object
from tests.beds.controller.bed import Bed, uids
from tests.beds.controller.waves import UNREADY, all_ready, both, built, layout, lose, roll, wave
from tests.beds.nodes import Behaviour
from tests.beds.objects import V1, V2, V3, daemonset
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


@pytest.mark.parametrize(
    ("state", "limits", "moves", "after"),
    [
        ("v1 v1+v2 v1", NO_SURGE, "-1 -2 +2", "v1 v2 v2"),  # the new one serves: it stays
        ("v1 v1+v2! v1", NO_SURGE, "-1 -2 +2", "v1 v1 v2"),  # only the old one serves: it stays
        ("v1 v1!+v2! v1", NO_SURGE, "-1", "v1 v2 v1"),  # nobody does: the new one stays
        ("v1 v1!+v2 v1", NO_SURGE, "-1 -2 +2", "v1 v2 v2"),
        ("v1 v1+v2! v1", NO_SURGE | {"paused": True}, "-1", "v1 v1 v1"),
        ("v1 v1+v2! v1", NO_SURGE | {"partition": 3}, "-1", "v1 v1 v1"),
    ],
)
async def test_from_surge_to_none_the_pod_stays_that_serves(
    bed: Bed, state: str, limits: Object, moves: str, after: str
) -> None:
    """The controller comes to node-1 with two pods and a strategy that wants one."""
    await built(bed, state, new=daemonset(rolling=limits))
    bed.controller.start()
    await wave(bed, moves)
    assert await layout(bed) == after


@pytest.mark.parametrize(
    ("edit", "moves", "after"),
    [
        ({"updateStrategy": {"rollingUpdate": NO_SURGE}}, "-2 -2 +2", "v1 v1 v2"),
        (ON_DELETE, "-2", "v1 v1 v1"),
        ({"updateStrategy": {"rollingUpdate": {"maxSurge": 2}}}, "+1", "v1 v1+v2 v1+v2"),
        ({"updateStrategy": {"rollingUpdate": {"paused": True}}}, "", "v1 v1 v1+v2"),
        ({"updateStrategy": {"rollingUpdate": {"partition": 3}}}, "", "v1 v1 v1+v2"),
    ],
)
async def test_a_surge_whose_new_pod_does_not_serve_yet(bed: Bed, edit: Object, moves: str, after: str) -> None:
    await begun(bed, 3, "+2", maxSurge=1)
    async with monitoring(bed, most_unavailable=1):
        await bed.edit(edit)
        await wave(bed, moves)
    assert await layout(bed) == after


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


async def test_a_second_template_before_the_first_is_everywhere(bed: Bed) -> None:
    await begun(bed, 3, both(2), maxUnavailable=1)
    async with monitoring(bed, most_unavailable=1):
        await all_ready(bed)
        await wave(bed, both(1))
        await bed.set_image(V3)
        await wave(bed, both(1))  # what does not serve goes first, and uses the budget
        for number in (2, 0):
            await all_ready(bed)
            await wave(bed, both(number))
    assert await layout(bed) == "v3 v3 v3"


async def test_a_second_template_before_the_first_is_everywhere_with_surge(bed: Bed) -> None:
    await begun(bed, 3, "+2", maxSurge=1)
    async with monitoring(bed, most_unavailable=0):
        await all_ready(bed)
        await wave(bed, "-2 +1")
        await bed.set_image(V3)
        await wave(bed, "-1 +2")
        assert await layout(bed) == "v1 v1 v2+v3"
        bed.nodes.behave("*", None)
        await wave(bed, "-2 +1 -1 +0 -0")
    assert await layout(bed) == "v3 v3 v3"


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


async def test_back_to_the_first_template_before_the_surge_serves(bed: Bed) -> None:
    """The new pods go, and every old one is what it should be again."""
    await begun(bed, 3, "+2 +1", maxSurge=2)
    async with monitoring(bed, most_unavailable=0):
        await bed.set_image(V1)
        await wave(bed, "-2 -1")
    assert await layout(bed) == "v1 v1 v1"
    await bed.settled()


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


async def test_a_surge_that_is_lowered_takes_no_pod_back(bed: Bed) -> None:
    await begun(bed, 4, "+3 +2 +1", maxSurge=3)
    async with monitoring(bed, most_unavailable=0):
        await roll(bed, maxSurge=1)
        await wave(bed, "")
        await all_ready(bed, 3, 2)
        await wave(bed, "-3 -2")
        await all_ready(bed)
        await wave(bed, "-1 +0")


async def test_a_limit_beyond_all_nodes_moves_all_at_once(bed: Bed) -> None:
    await begun(bed, 4, both(0, 1, 2, 3), maxUnavailable=10000)


@pytest.mark.parametrize(
    ("rolling", "first"),
    [
        ({}, "+2"),
        ({"maxSurge": "50%"}, "+2 +1"),
        ({"maxSurge": 10000}, "+2 +1 +0"),
    ],
)
async def test_surging_is_another_word_for_surge(bed: Bed, rolling: Object, first: str) -> None:
    await bed.deploy(daemonset(rolling={"rollingUpdateType": "Surging", **rolling}), nodes=3)
    bed.nodes.behave("*", UNREADY)
    async with monitoring(bed, most_unavailable=0):
        await bed.set_image(V2)
        await wave(bed, first)
        bed.nodes.behave("*", None)
        await bed.settled()
    assert await layout(bed) == "v2 v2 v2"


async def test_a_pair_that_is_left_while_its_old_pod_goes_slowly_is_no_surge_any_more(bed: Bed) -> None:
    """An old pod that was told to go frees its place in the surge: its node is done."""
    await begun(bed, 3, "+2", maxSurge=1)
    bed.nodes.behave("*", Behaviour(ready=None, terminate=None))
    async with monitoring(bed, most_unavailable=0):
        await all_ready(bed)
        await wave(bed, "-2 +1")
    assert await layout(bed) == "v1 v1+v2 v2"
