"""What real kubelets do with a running pod that is changed, and what becomes of it when a node is in trouble."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.beds.api import NODES, PODS, Object
from tests.beds.kubelet_cases import ALIAS, CASES, CRASHING, SAME, SLOW, Case
from tests.beds.objects import condition
from tests.beds.real_node import Manners
from tests.beds.real_node.node import LONG
from tests.beds.real_node.workloads import agent_pod, environment_of
from tests.beds.watched_pod import watching
from tests.real_node.bed import Bed

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]

NODE = "node-1"


@pytest.fixture
def images(bed: Bed) -> None:
    """What the cases name, in the registry; the missing one is missing."""
    registry, made = bed.ours.registry, bed.ours.images
    for tag in ("v1", "v2", "v3"):
        registry.put(f"kubelet:{tag}", made.agent(tag))
    registry.put(f"kubelet:{ALIAS}", made.agent(SAME))
    registry.put(f"kubelet:{CRASHING}", made.agent(CRASHING, CRASH="1"))
    registry.put(f"kubelet:{SLOW}", made.agent(SLOW), Manners(delay=2.0))


@asynccontextmanager
async def as_asked(bed: Bed, case: Case) -> AsyncIterator[None]:
    """The kubelet is the one that the case needs."""
    if not case.own_cpus:
        yield
        return
    with bed.nodes[NODE].with_kubelet(cpuManagerPolicy="static", reservedSystemCPUs="0"):
        yield


@pytest.mark.usefixtures("images")
@pytest.mark.parametrize("case", CASES)
async def test_the_real_kubelet_does_it(bed: Bed, case: str) -> None:
    async def environment(pod: Object) -> dict[str, str]:
        return await environment_of(bed.cluster, pod)

    one = CASES[case].pod(NODE)
    async with as_asked(bed, CASES[case]), watching(bed.api, one, LONG, environment) as pod:
        await CASES[case].play(pod)


POD = "on-node-1"


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
