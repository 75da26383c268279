"""A real kubelet goes through the cases of `kubelet_cases`: what the played one is measured by."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.beds.api import Object
from tests.beds.kubelet_cases import ALIAS, CASES, CRASHING, SAME, SLOW, Case
from tests.beds.real_node import Manners
from tests.beds.real_node.node import LONG
from tests.beds.real_node.workloads import environment_of
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
