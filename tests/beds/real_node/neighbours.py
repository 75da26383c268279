"""Clients of a daemon that know its pods by their addresses: one on each node, who asks whatever runs there.

They stand for those that look at no EndpointSlice: by a host port, over a socket on the node, or with a pod's address
in their hands. Whether a pod is ready is nothing to them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager

from tests.beds.api import PODS, Api, Object, apply, closing
from tests.beds.pods import node_of
from tests.beds.real_node.clients import PATIENCE, PAUSE
from tests.beds.real_node.cluster import RealCluster
from tests.beds.real_node.silence import Silence
from tests.beds.real_node.workloads import PORT


@asynccontextmanager
async def asking_pods(cluster: RealCluster, api: Api) -> AsyncIterator[Silence]:
    """While the block runs; where a node has several pods, an answer of any of them is one."""
    silence = Silence()
    async with asyncio.TaskGroup() as group:
        following = group.create_task(_follow(cluster, api, silence))
        try:
            yield silence
        finally:
            following.cancel()
    silence.end()


async def _follow(cluster: RealCluster, api: Api, silence: Silence) -> None:
    """A client for each pod from the moment it has an address until it is gone; ends when it is cancelled."""
    page = await api.page(PODS)
    found: dict[str, Object] = {one["metadata"]["uid"]: one for one in page["items"] or []}
    asked: dict[str, asyncio.Task[None]] = {}
    async with asyncio.TaskGroup() as group:

        def look(pods: Iterable[Object]) -> None:
            addressed = {pod["metadata"]["uid"]: pod for pod in pods if pod["status"].get("podIP")}
            for uid in asked.keys() - addressed.keys():
                asked.pop(uid).cancel()
            for uid in addressed.keys() - asked.keys():
                asked[uid] = group.create_task(_ask(cluster, addressed[uid], silence))

        look(found.values())
        version = page["metadata"]["resourceVersion"]
        while True:
            watch = api.watch(PODS, resourceVersion=version, silence=600.0)
            async with aclosing(closing(watch)) as events:
                async for event in events:
                    apply(found, event)
                    version = event.object["metadata"]["resourceVersion"]
                    look(found.values())


async def _ask(cluster: RealCluster, pod: Object, silence: Silence) -> None:
    node, uid, begun = node_of(pod), pod["metadata"]["uid"], time.monotonic()
    try:
        while True:
            begun = time.monotonic()
            status, _ = await cluster.nodes[node].fetch(pod["status"]["podIP"], PORT, seconds=PATIENCE)
            if status == 200:
                silence.broken(node, uid)
            else:
                silence.kept(node, begun, uid)
            await asyncio.sleep(PAUSE)
    finally:
        silence.kept(node, begun, uid)
