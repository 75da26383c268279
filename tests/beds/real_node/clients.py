"""Clients of a daemon, one on each node, and for how long they had no answer.

`asking`: each asks the ready pod of its own node all the time. `asking_pods`: each asks whatever runs there; they
stand for those that look at no EndpointSlice: by a host port, over a socket on the node, or with a pod's address
in their hands. Whether a pod is ready is nothing to them.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager

import msgspec

from tests.beds.api import PODS, Api, Object, Resource, apply, closing
from tests.beds.objects import node_of
from tests.beds.real_node.cluster import RealCluster
from tests.beds.real_node.node import LONG
from tests.beds.real_node.workloads import PORT


class Silence:
    """Seconds by node: from the first question in vain until the next answer. A node that has several who may answer
    is silent once the last question to each was in vain."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.waited: defaultdict[str, float] = defaultdict(float)
        self._since: dict[str, float] = {}
        self._answering: defaultdict[str, set[str]] = defaultdict(set)

    def broken(self, node: str, by: str = "") -> None:
        """An answer has come."""
        self._answering[node].add(by)
        if (since := self._since.pop(node, None)) is not None:
            self.waited[node] += self._clock() - since

    def kept(self, node: str, asked: float, by: str = "") -> None:
        """None came to what was asked at this moment (of the clock)."""
        self._answering[node].discard(by)
        if not self._answering[node]:
            self._since.setdefault(node, asked)

    def end(self) -> None:
        """No client asks any more: a silence that lasts counts as far as it has come."""
        for node in [*self._since]:
            self.broken(node)


SERVICES = Resource("/api/v1", "services", "Service")
SLICES = Resource("/apis/discovery.k8s.io/v1", "endpointslices", "EndpointSlice")
PAUSE = 0.02
PATIENCE = 60.0
"""Seconds between two questions, and for an answer: one that comes late on a busy machine is one."""


class Clients:
    """What they have seen. A client knows its pod from the EndpointSlices, as kube-proxy does for local traffic."""

    def __init__(self, cluster: RealCluster, api: Api) -> None:
        self._cluster, self._api = cluster, api
        self._heard: dict[str, str] = {}
        self._ready: dict[str, list[str]] = {}
        self._silence = Silence()
        self.waited = self._silence.waited
        """Seconds for which each node had no answer."""
        self.answers: Counter[str] = Counter()
        """By the version that gave them."""
        self.errors: Counter[str] = Counter()
        """By node: questions to a pod that counts as ready, without an answer."""
        self._away: set[str] = set()
        """Nodes whose client knew of no pod to ask when it last looked."""

    async def follow(self) -> None:
        """Keep in mind where each node's ready pods are, until cancelled."""
        page = await self._api.page(SLICES)
        found: dict[str, Object] = {one["metadata"]["uid"]: one for one in page["items"] or []}
        version = page["metadata"]["resourceVersion"]
        while True:
            self._ready = _ready_by_node(found.values())
            watch = self._api.watch(SLICES, resourceVersion=version, silence=600.0)
            async with aclosing(closing(watch)) as events:
                async for event in events:
                    apply(found, event)
                    version = event.object["metadata"]["resourceVersion"]
                    self._ready = _ready_by_node(found.values())

    async def all_have_an_answer(self) -> None:
        """Wait until each has got one more."""
        self._heard.clear()
        await self._until(lambda: self._heard.keys() == self._cluster.nodes.keys())

    async def all_hear(self, version: str) -> None:
        """Wait until this is what each has heard last."""
        await self._until(lambda: self._heard == dict.fromkeys(self._cluster.nodes, version))

    async def left(self, node: str) -> None:
        """Wait until the client of this node knows that it has no ready pod, and waits for no answer either."""
        await self._until(lambda: node in self._away)

    async def _until(self, holds: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(LONG):
                while not holds():  # no event for every answer
                    await asyncio.sleep(PAUSE)
        except TimeoutError:
            raise TimeoutError(f"the clients have heard {self._heard}, and know of {self._ready}") from None

    async def ask(self, name: str) -> None:
        """Be the client on this node, until cancelled."""
        node = self._cluster.nodes[name]
        while True:
            begun = time.monotonic()
            status, body = 0, ""
            addresses = self._ready.get(name)
            (self._away.discard if addresses else self._away.add)(name)
            if addresses:
                status, body = await node.fetch(random.choice(addresses), PORT, seconds=PATIENCE)
            if status == 200:
                self._heard[name] = msgspec.json.decode(body)["version"]
                self.answers[self._heard[name]] += 1
                self._silence.broken(name)
            else:
                if addresses:
                    self.errors[name] += 1
                self._silence.kept(name, begun)
            await asyncio.sleep(PAUSE)

    def stop(self) -> None:
        """No client asks any more."""
        self._silence.end()


def _ready_by_node(slices: Iterable[Object]) -> dict[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for one in slices:
        for endpoint in one.get("endpoints") or []:
            if endpoint["conditions"].get("ready"):
                found[endpoint["nodeName"]] += endpoint["addresses"]
    return found


@asynccontextmanager
async def asking(cluster: RealCluster, api: Api, app: str) -> AsyncIterator[Clients]:
    """A client on every node while the block runs; all have had an answer when it begins."""
    ports = [{"port": PORT}]
    await api.create(SERVICES, {"metadata": {"name": app}, "spec": {"selector": {"app": app}, "ports": ports}})
    count = len(cluster.nodes)
    await api.wait_for(
        SLICES, lambda slices: len(_ready_by_node(slices)) == count, "an endpoint on each node", seconds=LONG
    )
    clients = Clients(cluster, api)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(clients.follow())]
        tasks += [group.create_task(clients.ask(name)) for name in cluster.nodes]
        try:
            await clients.all_have_an_answer()
            clients.waited.clear()
            clients.answers.clear()
            yield clients
        finally:
            for task in tasks:
                task.cancel()
            clients.stop()


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
