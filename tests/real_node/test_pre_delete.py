"""Traffic that is drained by the preDelete hook: a client that was moved away is never answered by an error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from tests.beds.api import PODS, Object
from tests.beds.objects import node_of
from tests.beds.real_node.clients import Clients, asking
from tests.beds.real_node.workloads import agent_set
from tests.real_node.bed import Bed
from tests.real_node.rollouts import settled, update

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("controller")]

BLOCK = "example.io/block-deleting"
STATE = "lifecycle.apps.kruise.io/state"


@asynccontextmanager
async def letting_go(bed: Bed, clients: Clients) -> AsyncIterator[list[str]]:
    """Lets each prepared pod go once the client of its node knows that it is not ready; gives the nodes."""
    nodes: list[str] = []

    async def work() -> None:
        done: set[str] = set()
        while True:
            pods = await bed.api.wait_for(
                PODS, lambda pods: any(_is_new(pod, done) for pod in pods), "", seconds=3600
            )
            for pod in (pod for pod in pods if _is_new(pod, done)):
                done.add(pod["metadata"]["uid"])
                nodes.append(node_of(pod))
                await clients.left(node_of(pod))
                gone: Object = {"metadata": {"labels": {BLOCK: None}}}
                await bed.api.patch(PODS, pod["metadata"]["name"], gone)

    task = asyncio.create_task(work(), name="lets pods go")
    try:
        yield nodes
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _is_new(pod: Object, done: set[str]) -> bool:
    meta = pod["metadata"]
    return STATE in meta["labels"] and BLOCK in meta["labels"] and meta["uid"] not in done


async def test_a_client_that_is_moved_away_never_gets_an_error(bed: Bed) -> None:
    made = agent_set("agent:v1", maxUnavailable=1)
    made["spec"]["lifecycle"] = {"preDelete": {"labelsHandler": {BLOCK: "true"}, "markPodNotReady": True}}
    made["spec"]["template"]["metadata"]["labels"] = {**made["spec"]["template"]["metadata"]["labels"], BLOCK: "true"}
    await bed.apply(made)
    await settled(bed)
    async with asking(bed.ours, bed.api, "agent") as clients, letting_go(bed, clients) as nodes:
        await update(bed, "agent:v2")
        await settled(bed)
        await clients.all_hear("v2")
    assert nodes == sorted(bed.workers, reverse=True)
    assert clients.errors == {}
    assert clients.answers.keys() == {"v1", "v2"}
    assert await bed.warnings() == []
