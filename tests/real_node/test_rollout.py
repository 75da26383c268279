"""A DaemonSet of ours where containers really run: the controller is a process on the machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress

import pytest

from tests.beds.api import PODS, Object, closing
from tests.beds.objects import node_of
from tests.beds.real_node.clients import Clients, asking
from tests.beds.real_node.node import LONG
from tests.beds.real_node.workloads import agent_set
from tests.real_node.bed import Bed, deployed, goes_node_by_node, settled, update

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("controller")]


async def test_a_rollout_leaves_one_node_at_a_time(bed: Bed) -> None:
    await goes_node_by_node(bed)


async def test_with_surge_no_client_waits(bed: Bed) -> None:
    """The program serves on for longer than it takes until the last client knows."""
    cluster = bed.ours
    async with deployed(bed, maxSurge=1, maxUnavailable=0, environment={"STOP_SECONDS": "25"}) as witness:
        witness.floor, witness.most_pairs = len(bed.workers), 1
        async with asking(cluster, bed.api, "agent") as clients:
            await update(bed, "agent:v2")
            await settled(bed)
            await clients.all_hear("v2")
        assert clients.waited == {}
        assert clients.answers.keys() == {"v1", "v2"}


async def end_of(bed: Bed, old: Object) -> str:
    """Delete the pod; returns its phase at the moment when the next one of its node appears, or "gone"."""
    uid, node = old["metadata"]["uid"], node_of(old)
    page = await bed.api.page(PODS)
    watch = bed.api.watch(PODS, silence=LONG, resourceVersion=page["metadata"]["resourceVersion"])
    phase = "Running"
    await bed.kubectl("delete", "pod", old["metadata"]["name"], "--wait=false")
    async with asyncio.timeout(LONG), aclosing(closing(watch)) as events:
        async for event in events:
            if event.type == "ADDED" and node_of(event.object) == node:
                return phase
            if event.object["metadata"]["uid"] == uid:
                phase = "gone" if event.type == "DELETED" else event.object["status"]["phase"]
    raise AssertionError("the watch ended")


async def test_two_programs_never_run_on_one_node(bed: Bed) -> None:
    """The old one takes two seconds to end, and says at its end how it went."""
    async with deployed(bed, environment={"STOP_SECONDS": "2"}):
        for pod in await bed.pods():
            assert await end_of(bed, pod) in ("Succeeded", "gone")
            await settled(bed)
    assert await bed.warnings() == []


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
