"""The tests' registry: containerd pulls from it, late, slowly or in vain, as it is told to."""

from __future__ import annotations

import os
import time

import pytest

from tests.beds.api import PODS
from tests.beds.oci import layer
from tests.beds.real_node import Manners
from tests.beds.real_node.patience import LONG
from tests.beds.real_node.workloads import agent_pod, cannot_pull
from tests.real_node.bed import Bed

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]


async def test_an_image_is_pulled_once_for_each_node(bed: Bed) -> None:
    registry = bed.ours.registry
    registry.put("once:v1", bed.ours.images.agent("once"))
    pulls = []
    for number, node in enumerate(("node-1", "node-2", "node-1")):
        await bed.api.create(PODS, agent_pod(f"agent-{number}", "once:v1", on=node))
        pod = await bed.is_ready(f"agent-{number}")
        assert await bed.version_of(pod) == "once"
        pulls.append(registry.pulls["once:v1"])
    assert 0 < pulls[0] < pulls[1] == pulls[2]


async def test_images_that_cannot_be_had_can_be_had_later(bed: Bed) -> None:
    registry, nodes = bed.ours.registry, {404: "node-1", 500: "node-2"}
    for status, node in nodes.items():
        registry.behave(f"broken-{status}:v1", Manners(status=status))
        await bed.api.create(PODS, agent_pod(f"agent-{status}", f"broken-{status}:v1", on=node))
    await bed.api.wait_for(PODS, lambda pods: all(map(cannot_pull, pods)), "none can be pulled", seconds=LONG)
    for status in nodes:
        registry.put(f"broken-{status}:v1", bed.ours.images.agent("mended"))
    for status in nodes:
        assert await bed.version_of(await bed.is_ready(f"agent-{status}")) == "mended"


async def test_a_slow_image_takes_its_time(bed: Bed) -> None:
    """Half a second to begin, and a layer of its own with as many bytes as are let through in a second."""
    size = 256 * 1024
    slow = bed.ours.images.agent("slow", layer({"ballast": os.urandom(size)}))
    bed.ours.registry.put("slow:v1", slow, Manners(delay=0.5, rate=size))
    begun = time.monotonic()
    await bed.api.create(PODS, agent_pod("agent", "slow:v1", on="node-1"))
    assert await bed.version_of(await bed.is_ready("agent")) == "slow"
    assert time.monotonic() - begun > 1.5
