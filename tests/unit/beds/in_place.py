"""A pod on a played node in virtual time, and all that its status has shown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from tests.beds.api import EVENTS, PODS, STRATEGIC_MERGE_PATCH, Api, Object, closing
from tests.beds.nodes import INSTANT, Behaviour, Nodes
from tests.beds.objects import condition, is_ready, pod
from tests.beds.simulator import Cluster, InProcess
from tests.beds.virtual_time import clock, now

NODE = "worker-01"
PROBE = {"httpGet": {"path": "/", "port": 80}}


class Pod:
    """What a test does to it and asks of it. `seen`: (seconds since the last change by the test, the pod)."""

    def __init__(self, api: Api, nodes: Nodes, way: InProcess) -> None:
        self.api, self.nodes = api, nodes
        self.way = way
        """The nodes' own to the server."""
        self.seen: list[tuple[float, Object]] = []
        self.begun = 0.0

    async def change(self, patch: Object, *, sub: str = "") -> Object:
        self.seen.clear()
        self.begun = now()
        return await self.api.patch(PODS, "one", patch, sub=sub, content_type=STRATEGIC_MERGE_PATCH)

    async def image(self, image: str, name: str = "main") -> Object:
        return await self.change({"spec": {"containers": [{"name": name, "image": image}]}})

    async def resize(self, **resources: Any) -> Object:
        return await self.change({"spec": {"containers": [{"name": "main", "resources": resources}]}}, sub="resize")

    async def gate(self, value: str) -> Object:
        return await self.change({"status": {"conditions": [{"type": "gate", "status": value}]}}, sub="status")

    async def events(self) -> list[str]:
        found = sorted(await self.api.list(EVENTS), key=lambda one: int(one["metadata"]["resourceVersion"]))
        return [f"{one['reason']}: {one['message']}" for one in found]

    async def follow(self) -> None:
        async with aclosing(closing(self.api.watch(PODS, silence=1e9))) as events:
            async for event in events:
                self.seen.append((round(now() - self.begun, 3), event.object))

    def story(self, name: str = "main") -> list[tuple[float, str]]:
        """When the container's entry showed what, as far as it changed."""
        told: list[tuple[float, str]] = []
        for moment, found in self.seen:
            words = in_words(found, name)
            if not told or told[-1][1] != words:
                told.append((moment, words))
        return told


def in_words(found: Object, name: str = "main") -> str:
    """`running v1 x0 ready`."""
    state = state_of(found, name)
    ((what, more),) = state["state"].items()
    image = state["image"].rpartition(":")[2]
    ready = "ready" if is_ready(found) else "unready"
    return f"{more.get('reason', what)} {image} x{state['restartCount']} {ready}"


def state_of(found: Object, name: str = "main") -> Object:
    status = found["status"]
    states = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    return next(one for one in states if one["name"] == name)


def since(found: Object, name: str = "Ready") -> str:
    return str(condition(found, name)["lastTransitionTime"])


@asynccontextmanager
async def running(
    behaviour: Behaviour = INSTANT, *, probe: bool = False, spec: Object | None = None, **container: Any
) -> AsyncIterator[Pod]:
    """One pod with image `agent:v1`, ready for a minute."""
    cluster = Cluster(clock)
    way = InProcess(cluster)
    async with Nodes(way, behaviour=behaviour, clock=clock) as nodes:
        await nodes.add(NODE)
        api = Api(InProcess(cluster))
        new = pod("one", image="agent:v1", aimed_at=NODE)
        new["spec"]["containers"][0] |= {**container, **({"readinessProbe": PROBE} if probe else {})}
        new["spec"] |= spec or {}
        await api.create(PODS, new)
        one = Pod(api, nodes, way)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(one.follow())
            await asyncio.sleep(60)
            yield one
            task.cancel()
