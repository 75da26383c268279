"""A node whose kubelet dies, that freezes, or whose network is cut. Power cuts are in the rollouts' tests."""

from __future__ import annotations

import pytest

from tests.beds.api import NODES, PODS, Object
from tests.beds.objects import condition
from tests.beds.real_node.node import LONG
from tests.beds.real_node.workloads import agent_pod
from tests.real_node.bed import Bed

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]

NODE, POD = "node-1", "on-node-1"


def life(pod: Object) -> tuple[str, int]:
    """What changes when its container is started again."""
    (status,) = pod["status"]["containerStatuses"]
    return status["containerID"], status["restartCount"]


async def running(bed: Bed, node: str = NODE) -> Object:
    assert node in bed.nodes
    await bed.api.create(PODS, agent_pod(f"on-{node}", "agent:v1", on=node))
    pod = await bed.is_ready(f"on-{node}")
    assert await bed.version_of(pod) == "v1"
    return pod


async def nodes_are(bed: Bed, ready: str, *names: str) -> None:
    """Wait until the condition Ready of these nodes is True, False or Unknown."""

    def are_so(found: list[Object]) -> bool:
        states = {one["metadata"]["name"]: condition(one, "Ready").get("status") for one in found}
        return {states[name] for name in names} == {ready}

    await bed.api.wait_for(NODES, are_so, f"Ready of {', '.join(names)} is {ready}", seconds=LONG)


async def test_without_its_kubelet_a_program_runs_on_and_is_found_again(bed: Bed) -> None:
    node, before = bed.nodes[NODE], await running(bed)
    with node.without_kubelet():
        await bed.kubectl("delete", "pod", POD, "--wait=false")
        assert await bed.version_of(before) == "v1", "no kubelet is there to end it"
    await bed.api.wait_for(PODS, lambda pods: not pods, "the kubelet is back and ends the pod", seconds=LONG)
    assert await bed.version_of(before) == ""


async def test_a_node_that_is_silent_for_a_while_has_lost_nothing(bed: Bed) -> None:
    second, third = bed.nodes["node-2"], bed.nodes["node-3"]
    before = [await running(bed, node.name) for node in (second, third)]
    with second.frozen(), third.cut_off():
        await nodes_are(bed, "Unknown", "node-2", "node-3")
    await nodes_are(bed, "True", "node-2", "node-3")
    for old in before:
        new = await bed.is_ready(old["metadata"]["name"])
        assert life(new) == life(old)
        assert await bed.version_of(new) == "v1"
