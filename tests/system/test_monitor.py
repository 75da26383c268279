"""The monitor sees what no controller may do: here a test does it by hand, with the controller stopped."""

from __future__ import annotations

import pytest

from tests.beds.api import PODS
from tests.beds.controller.bed import Bed
from tests.beds.controller.waves import UNREADY, live, put
from tests.beds.objects import V2, daemonset, image_of, is_ready, node_of
from tests.system.monitor import monitoring

SURGE = {"maxUnavailable": 0, "maxSurge": 1}


async def act(bed: Bed, what: str) -> None:
    """ "+3:v2" creates a pod of that version on node-3, "-3:v1" deletes the one there."""
    if what[0] == "+":
        await put(bed, what[1:])
        return
    there = {f"{node_of(pod)}:{image_of(pod).rpartition(':')[2]}": pod for pod in await live(bed)}
    await bed.api.delete(PODS, there[f"node-{what[1:]}"]["metadata"]["name"])


async def halted(bed: Bed, **rolling: object) -> None:
    """Three nodes with pods of v1, and v2 is current. The controller is stopped, and new pods do not get ready."""
    await bed.deploy(daemonset(rolling={**rolling, "paused": True}), nodes=3)
    await bed.set_image(V2)
    await bed.seen()
    await bed.idle()
    await bed.controller.stop()
    bed.nodes.behave("*", UNREADY)


@pytest.mark.parametrize(
    ("rolling", "acts", "words"),
    [
        ({}, "+2:v2", "a second pod on node-2 without surge"),
        (SURGE, "+2:v1", "two pods of a kind on node-2"),
        (SURGE, "+2:v2 +1:v2", "more than maxSurge nodes have two pods: node-1, node-2"),
        (SURGE | {"maxSurge": "50%"}, "+2:v2 +1:v2 +0:v2", "more than maxSurge nodes have two pods"),
        (SURGE, "+2:v2 -2:v1", "node-2 loses .* before another serves"),
        ({}, "-2:v1 -1:v1", "without an available pod: node-1, node-2"),
    ],
)
async def test_a_broken_moment_is_reported(bed: Bed, rolling: dict[str, object], acts: str, words: str) -> None:
    await halted(bed, **rolling)

    async def watched() -> None:
        async with monitoring(bed, most_unavailable=1):
            for what in acts.split():
                await act(bed, what)

    with pytest.raises(AssertionError, match=words):
        await watched()


async def test_a_rollout_within_its_limits_is_left_in_peace(bed: Bed) -> None:
    await halted(bed, **SURGE)
    bed.nodes.behave("*", None)
    async with monitoring(bed, most_unavailable=0):
        for what in ("+2:v2", "-2:v1", "+1:v2", "-1:v1"):
            await act(bed, what)
            await bed.until(PODS, lambda found: "" if all(map(is_ready, found)) else "not ready", "ready pods")
