"""Containers that do not come to stay after an update in place, and those whose kubelet makes them wait."""

from __future__ import annotations

import asyncio

import pytest

from tests.beds.api import EVENTS, PODS, Object
from tests.beds.controller.bed import Bed
from tests.beds.nodes import Behaviour
from tests.beds.objects import V1, V2, V3
from tests.beds.pods import image_of
from tests.system.in_place import container_of, identities, in_place, is_open, restarts, serving
from tests.system.monitor import monitoring

QUICK = Behaviour(notice=0.1, terminate=0.2, start=0.2, gate=0.1)


@pytest.mark.parametrize(("min_ready", "crash_after"), [(10, 0.3), (0, 0.1), (0, 0.5), (0, 1.5)])
async def test_an_image_that_crashes_stops_the_rollout_at_one_node_and_going_back_heals_it_at_once(
    bed: Bed, min_ready: int, crash_after: float
) -> None:
    """Nobody probes it: its kubelet calls it ready as long as it runs."""
    await bed.deploy(in_place(minReadySeconds=min_ready), nodes=4)
    before = identities(await bed.pods())
    bed.nodes.behave("*", Behaviour(notice=0.1, gate=0.1, crashing_images=("*:v2",), crash_after=crash_after))
    async with monitoring(bed, most_unavailable=1):
        await bed.set_image(V2)
        await asyncio.sleep(900)
        pods = await bed.pods()
        assert [node for node, pod in pods.items() if image_of(pod) == V2] == ["node-3"]
        assert restarts(pods["node-3"]) > 3, "it is tried again and again"
        await bed.event("FailedUpdatePodInPlace", "on node node-3 does not start again: container agent: ")
        told = {one["message"] for one in await bed.api.list(EVENTS) if one["reason"] == "FailedUpdatePodInPlace"}
        assert [words.endswith("container agent: ended, exit 1 (Error)") for words in told] == [True]
        stuck = await bed.condition("Progressing", "ProgressDeadlineExceeded")
        assert "containers do not start again on node-3: CrashLoopBackOff" in stuck["message"]
        began = bed.clock()
        await bed.update(V1)
    assert bed.clock() - began < 15, "minReadySeconds, and no back-off of the kubelet: it is another image"
    after = await bed.pods()
    assert identities(after) == before
    assert [restarts(after[f"node-{number}"]) for number in range(3)] == [0, 0, 0]
    assert bed.journal.deleted == []


async def test_an_image_that_crashes_stops_the_rollout_also_where_clocks_of_nodes_are_behind(bed: Bed) -> None:
    await bed.deploy(in_place(), nodes=4)
    bed.controller.ahead = 20.0
    bed.nodes.behave("*", Behaviour(notice=0.1, gate=0.1, crashing_images=("*:v2",), crash_after=0.5))
    async with monitoring(bed, most_unavailable=1):
        await bed.set_image(V2)
        await asyncio.sleep(900)
        assert [node for node, pod in (await bed.pods()).items() if image_of(pod) == V2] == ["node-3"]
        await bed.update(V1)


def waits(pod: Object) -> bool:
    """Whether its kubelet says that it does not start the container now."""
    waiting = (container_of(pod).get("state") or {}).get("waiting") or {}
    return bool(waiting.get("reason") == "CrashLoopBackOff")


async def test_going_back_and_forth_meets_the_kubelet_s_back_off_and_ends_all_the_same(bed: Bed) -> None:
    """It says CrashLoopBackOff of a container that it restarted into lately, although no program has crashed."""
    nodes = await bed.deploy(in_place(), nodes=2)
    before = identities(await bed.pods())
    bed.nodes.behave("*", QUICK)
    async with monitoring(bed, most_unavailable=1):
        for image in (V2, V3, V2, V1):
            await bed.update(image)
        began = bed.clock()
        await bed.set_image(V2)
        await bed.until(PODS, lambda pods: "" if any(map(waits, pods)) else "none waits", "CrashLoopBackOff")
        await bed.status(updated=1, available=1)
        await bed.idle()
        assert [is_open(pod) for pod in (await bed.pods()).values() if waits(pod)] == [False]
        await bed.settled()
    assert bed.clock() - began > 10
    after = await bed.pods()
    assert await serving(bed, V2) == {*nodes}
    assert identities(after) == before
    assert [restarts(pod) for pod in after.values()] == [5, 5]
    assert [one["message"] for one in await bed.api.list(EVENTS) if one["reason"] == "FailedUpdatePodInPlace"] == []
