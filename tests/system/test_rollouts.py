"""One story for each way in which a rollout can be steered; on the real server too."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

import pytest

from controller.api.objects import epoch
from tests.beds.api import Object
from tests.beds.controller.bed import Bed, uids
from tests.beds.controller.opening import simulated
from tests.beds.controller.waves import UNREADY, all_ready, both, keeps_two, layout, live, lose, roll, wave
from tests.beds.nodes import Behaviour
from tests.beds.objects import V2, V3, condition, daemonset, image_of, node_of
from tests.beds.virtual_time import START, clock
from tests.system.both import both_beds
from tests.system.monitor import monitoring


@both_beds
async def test_a_lost_pod_comes_back_old_and_the_partition_goes_on(bed: Bed) -> None:
    await bed.deploy(daemonset(rolling={"maxUnavailable": 4, "partition": 2}), nodes=4)
    async with monitoring(bed):
        await keeps_two(bed)
        await roll(bed, partition=1)
        await wave(bed, both(1))
        assert await layout(bed) == "v1 v2 v2 v2"
        await roll(bed, partition=0)
        await wave(bed, both(0))


@both_beds
async def test_canary_nodes_then_a_partition_then_paused_then_resumed(bed: Bed) -> None:
    for number in range(10):
        await bed.nodes.add(f"node-{number}", labels={"canary": "yes"} if number in (3, 6) else {})
    canaries = {"matchLabels": {"canary": "yes"}}
    await bed.deploy(daemonset(rolling={"maxUnavailable": 2, "selector": canaries}))
    async with monitoring(bed, most_unavailable=2):
        await bed.set_image(V2)
        await wave(bed, both(6, 3))
        await bed.condition("Progressing", "SelectorReached")
        await roll(bed, selector=None, partition=6)
        await wave(bed, both(9, 8))
        await roll(bed, partition="30%")
        await wave(bed, both(7, 5, 4))
        await bed.condition("Progressing", "PartitionReached")
        bed.nodes.behave("*", UNREADY)
        await roll(bed, partition=0)
        await wave(bed, both(2, 1))
        await roll(bed, paused=True)
        await all_ready(bed)
        await wave(bed, "")
        await bed.condition("Progressing", "Paused")
        await bed.set_image(V3)
        await wave(bed, "")
        bed.nodes.behave("*", None)
        await roll(bed, paused=False)
        await wave(bed, both(*range(10)))
        await bed.condition("Progressing", "RolloutComplete")
    assert await layout(bed) == " ".join(["v3"] * 10)


@both_beds
async def test_while_paused_all_but_the_update_goes_on_with_old_pods(bed: Bed) -> None:
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


@both_beds
async def test_with_partitioned_scaling_creation_and_update_share_the_places(bed: Bed) -> None:
    """An added node is created where a place is left, and only what is left after that is updated."""
    new = daemonset(rolling={"maxUnavailable": 3, "partition": 0}, scaleStrategy={"partitionedScaling": True})
    await bed.deploy(new, nodes=3)
    async with monitoring(bed):
        await roll(bed, partition=3)
        await bed.set_image(V2)
        await wave(bed, "")
        await bed.nodes.add("node-3")
        await wave(bed, "+3")
        await roll(bed, partition=2)
        await wave(bed, both(2))
    assert await layout(bed) == "v1 v1 v2 v2"


async def surging(bed: Bed, count: int, **rolling: object) -> None:
    """Ready pods of v1 on so many nodes; new pods do not get ready by themselves."""
    await bed.add_nodes(count)
    await bed.deploy(daemonset(rolling=rolling))
    bed.nodes.behave("*", UNREADY)


@both_beds
async def test_waves_of_max_surge_by_descending_names(bed: Bed) -> None:
    await surging(bed, 5, maxSurge=2)
    async with monitoring(bed, most_unavailable=0):
        await bed.set_image(V2)
        for moves in ("+4 +3", "-4 -3 +2 +1", "-2 -1 +0", "-0", ""):
            await wave(bed, moves)
            await all_ready(bed)
        await bed.settled()
    assert await layout(bed) == "v2 v2 v2 v2 v2"


async def test_nodes_that_join_all_the_time_keep_no_update_waiting(bed: Bed) -> None:
    """Every pass has a pod to place on a new node, and each of these takes two seconds to get ready."""
    await surging(bed, 5, maxSurge=1)
    old = set(uids(await bed.pods()).values())
    bed.nodes.behave("*", Behaviour(start=0.5, ready=2.0, terminate=1.0))
    await bed.set_image(V2)
    for number in range(60):
        await bed.nodes.add(f"joins-{number:02}")
        await bed.idle(0.5)
    assert old.isdisjoint(uids(await bed.pods()).values()), "in half a minute"


HOUR = 3600
Happens: TypeAlias = Callable[[Bed, float], Awaitable[float]]
"""After the new pod got ready at that moment; returns when the next pod is due."""


@asynccontextmanager
async def begun(rolling: Object) -> AsyncIterator[Bed]:
    """Two nodes with v1; node-1 has its pod of v2, which is not ready yet. Everybody waits for that."""
    async with simulated() as bed:
        bed.patience = 30.0 * HOUR
        await bed.deploy(daemonset(minReadySeconds=HOUR, rolling=rolling), nodes=2)
        bed.nodes.behave("*", UNREADY)
        await bed.set_image(V2)
        await bed.idle(60)
        bed.journal.clear()
        yield bed


async def ready(bed: Bed) -> float:
    """The new pod gets ready. Returns the moment that its time stamp tells, in seconds since 1970."""
    pod = await bed.nodes.ready(next(pod for pod in await live(bed) if image_of(pod) == V2))
    assert node_of(pod) == "node-1"
    moment = epoch(condition(pod, "Ready")["lastTransitionTime"])
    assert moment is not None
    return moment


async def nothing_happens(bed: Bed, since: float) -> float:
    return since + HOUR


async def its_readiness_is_lost(bed: Bed, since: float) -> float:
    await bed.idle(HOUR - 60)
    lame = next(pod for pod in await live(bed) if image_of(pod) == V2)
    await bed.nodes.ready(lame, value=False)
    await bed.idle(60)
    return await ready(bed) + HOUR


async def the_wait_is_shortened(bed: Bed, since: float) -> float:
    await bed.idle(HOUR / 2)
    edited = clock()
    await bed.edit({"minReadySeconds": 60})
    return edited


async def the_controller_is_restarted(bed: Bed, since: float) -> float:
    await bed.idle(HOUR / 2)
    await bed.controller.kill()
    bed.controller.start()
    return since + HOUR


@pytest.mark.parametrize("rolling", [{"maxUnavailable": 1}, {"maxSurge": 1}])
@pytest.mark.parametrize(
    "happens", [nothing_happens, its_readiness_is_lost, the_wait_is_shortened, the_controller_is_restarted]
)
async def test_the_next_pod_goes_at_the_very_moment(rolling: Object, happens: Happens) -> None:
    async with begun(rolling) as bed, monitoring(bed, most_unavailable=1):
        due = await happens(bed, await ready(bed))
        await bed.idle(HOUR + 60)
        gone = bed.journal.of("pods", "delete")[0]
        assert gone.node == ("node-1" if "maxSurge" in rolling else "node-0")
        assert 0 <= START + gone.at - due < 1
