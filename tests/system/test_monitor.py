"""The monitor sees what no controller may do: here somebody does it by hand, with the controller stopped."""

from __future__ import annotations

import pytest

from tests.beds.api import DAEMONSETS, PODS, Object
from tests.beds.controller.bed import Bed
from tests.beds.controller.waves import UNREADY, layout, live, put, roll
from tests.beds.objects import V2, V3, daemonset, image_of, is_ready, node_of
from tests.system.monitor import monitoring

SURGE = {"maxUnavailable": 0, "maxSurge": 1}
PROGRESSIVE = {"metadata": {"annotations": {"daemonset.kruise.io/progressive-create-pod": "true"}}}


async def act(bed: Bed, what: str) -> None:
    """ "+3:v2" creates a pod of that version on node-3, "-3:v1" deletes the one there, "node" adds node-4."""
    if what == "node":
        await bed.nodes.add("node-4")
        return
    node, version = f"node-{what[1]}", what[3:]
    if what[0] == "-":
        pods = [pod for pod in await live(bed) if node_of(pod) == node and image_of(pod).endswith(version)]
        await bed.api.delete(PODS, pods[0]["metadata"]["name"])
        return
    await put(bed, what[1:])


@pytest.mark.parametrize(
    ("rolling", "acts", "words"),
    [
        ({}, "+3:v3", "a second pod on node-3 without surge"),
        (SURGE, "+3:v2", "two pods of a kind on node-3"),
        (SURGE, "+3:v3 +2:v3", "more than maxSurge nodes have two pods: node-2, node-3"),
        (SURGE | {"maxSurge": "50%"}, "+3:v3 +2:v3 +1:v3", "more than maxSurge nodes have two pods"),
        (SURGE, "+3:v3 -3:v2", "node-3 loses .* before another serves"),
        (SURGE | {"partition": 4}, "+3:v3", "node-3 is one more than the 0 that the partition allows"),
        (SURGE | {"partition": "50%"}, "+3:v3 -3:v2 +2:v3 -2:v2 +1:v3", "node-1 is one more than the 2"),
        (SURGE | {"selector": {"matchLabels": {"canary": "yes"}}}, "+3:v3", "node-3 is not selected"),
        (SURGE | {"paused": True}, "+3:v3", "node-3 moves while paused"),
        ({}, "-3:v2 +3:v1", "node-3 gets a pod of another older revision than it had"),
        ({"partition": 5}, "node +4:v1", "node-4 gets a pod that is not of the older revision that most run"),
        ({"partition": 5}, "node +4:v2", "node-4 gets its first pod although the partition leaves no room"),
        ({}, "-3:v2 -2:v2", "without an available pod: node-2, node-3"),
    ],
)
async def test_a_broken_moment_is_told(bed: Bed, rolling: Object, acts: str, words: str) -> None:
    await three_revisions(bed)
    if "first pod" in words:
        await bed.api.patch(DAEMONSETS, "agent", PROGRESSIVE)
    await roll(bed, **{"partition": None, **rolling})

    async def watched() -> None:
        async with monitoring(bed, most_unavailable=1):
            for what in acts.split():
                await act(bed, what)

    with pytest.raises(AssertionError, match=words):
        await watched()


async def test_a_rollout_within_its_limits_is_left_in_peace(bed: Bed) -> None:
    await three_revisions(bed)
    bed.nodes.behave("*", None)
    await roll(bed, **SURGE, partition=2)
    async with monitoring(bed, most_unavailable=0):
        for what in ("+3:v3", "-3:v2", "+2:v3", "-2:v2"):
            await act(bed, what)
            await bed.until(PODS, all_run, "ready pods")
    assert await layout(bed) == "v2 v2 v3 v3"


def all_run(found: list[Object]) -> str:
    return "" if all(is_ready(pod) for pod in found) else "not ready"


async def three_revisions(bed: Bed) -> Bed:
    """Four nodes with pods of v2, and revisions v1, v2 and v3, which is current. New pods do not get ready."""
    await bed.deploy(daemonset(), nodes=4)
    await bed.update(V2)
    await roll(bed, partition=4)
    await bed.set_image(V3)
    await bed.seen()
    await bed.idle()
    await bed.controller.stop()
    bed.nodes.behave("*", UNREADY)
    return bed
