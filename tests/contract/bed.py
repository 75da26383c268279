"""What a contract test holds in its hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Protocol

import pytest
from aiohttp import ClientSession

from controller.kube.requests import Transport
from tests.beds.api import (
    CONFIGMAPS,
    DAEMONSETS,
    NAMESPACES,
    NODES,
    PODS,
    Api,
    Event,
    Object,
    Refusal,
    Resource,
    closing,
)
from tests.beds.control_plane import ControlPlane
from tests.beds.nodes import INSTANT, Behaviour, Nodes
from tests.beds.objects import configmap, demo, garbage_collector_knows, names, owner
from tests.beds.simulator import Cluster

WAIT_SECONDS = 60.0
"""Much more than anything takes, also on a busy machine."""


class Compaction(Protocol):
    """How the history of this bed is made short."""

    async def __call__(self) -> None: ...


class SimulatedCompaction:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def __call__(self) -> None:
        self._cluster.store.compact()


class RealCompaction:
    """Compacts etcd. The API server's own cache may still know more than etcd does."""

    def __init__(self, plane: ControlPlane) -> None:
        flag = "--advertise-client-urls="
        command = plane.process("etcd").command
        self._url = next(word.removeprefix(flag) for word in command if word.startswith(flag))

    async def __call__(self) -> None:
        async with ClientSession(self._url) as session:
            async with session.post("/v3/kv/range", json={"key": "AA=="}) as answer:
                revision = (await answer.json())["header"]["revision"]
            body = {"revision": revision, "physical": True}
            async with session.post("/v3/kv/compaction", json=body) as answer:
                assert answer.status == 200, await answer.text()


class ApiServer:
    """One API server and a namespace in it that is this test's alone."""

    transport: Transport
    api: Api
    name: str
    """The namespace; also a prefix for names of cluster-scoped objects."""

    def __init__(self, compact: Compaction) -> None:
        self.compact = compact
        self._nodes: list[str] = []
        self._open: list[AsyncGenerator[Event, None]] = []

    async def needs_garbage_collector(self) -> None:
        """Wait until it has noticed our kind, for which it looks every 30 s."""
        head = await self.api.create(DAEMONSETS, demo("probe"))
        await self.api.create(CONFIGMAPS, configmap("probe", ownerReferences=[owner(head)]))
        await self.api.delete(DAEMONSETS, "probe")
        await self.api.wait_for(
            CONFIGMAPS, lambda found: "probe" not in names(found), "the garbage collector is awake", seconds=90
        )

    @property
    def nowhere(self) -> str:
        """A node that does not exist: no kubelet interferes with a pod that is bound to it.

        It is this test's alone, because 40 s after the pod garbage collector has missed a node for the first time
        all pods on it go, also those that have just come.
        """
        return f"{self.name}-nowhere"

    async def garbage_collector_knows(self, *resources: Resource) -> None:
        """Wait until it has seen all objects of these kinds that are there now."""
        await garbage_collector_knows(self.api, *resources)

    @asynccontextmanager
    async def nodes(
        self, count: int = 1, *, behaviour: Behaviour = INSTANT, **options: Any
    ) -> AsyncIterator[tuple[Nodes, list[str]]]:
        """Played nodes and their names; see `Nodes.add` for the options.

        The played scheduler hears of nodes and of pods by two watches: a pod may overtake a change of its node.
        """
        names = [f"{self.name}-{number}" for number in range(1, count + 1)]
        async with Nodes(self.transport, behaviour=behaviour) as nodes:
            for name in names:
                await nodes.add(name, **options)
            self._nodes += names
            yield nodes, names

    async def follow(
        self, resource: Resource, *, resume_from: str | None = None, **query: str
    ) -> tuple[Object, AsyncIterator[Event]]:
        """A list, and a watch that begins where the list ends, or at another version, or ("") at none."""
        page = await self.api.page(resource)
        version = page["metadata"]["resourceVersion"] if resume_from is None else resume_from
        if version:
            query["resourceVersion"] = version
        events = self.api.watch(resource, namespace=None, silence=WAIT_SECONDS, **query)
        self._open.append(closing(events))
        return page, events

    async def clean_up(self) -> None:
        """Leave nothing that another test could see; the namespace itself goes in its own time."""
        for events in self._open:
            await events.aclose()
        for left in await self.api.list(PODS):
            await self._force_away(left)
        for name in self._nodes:
            if await self.api.find(NODES, name) is not None:
                await self.api.delete(NODES, name)
        try:
            await self.api.delete(NAMESPACES, self.name)
        except Refusal as refusal:
            if refusal.status != 404:
                raise

    async def _force_away(self, pod: Object) -> None:
        name = pod["metadata"]["name"]
        try:
            if pod["metadata"].get("finalizers"):
                await self.api.patch(PODS, name, {"metadata": {"finalizers": None}})
            await self.api.delete(PODS, name, options={"gracePeriodSeconds": 0})
        except Refusal as refusal:
            if refusal.status != 404:
                raise


@contextmanager
def refused(status: int, reason: str, message: str | None = None, **details: Any) -> Iterator[list[Refusal]]:
    """The block ends with this refusal; `details` is compared as far as it is given, and handed out for more."""
    caught: list[Refusal] = []
    with pytest.raises(Refusal) as info:
        yield caught
    refusal = info.value
    caught.append(refusal)
    assert (refusal.status, refusal.reason) == (status, reason), refusal.body
    assert {key: refusal.body.get(key) for key in ("kind", "apiVersion", "status", "code")} == {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": status,
    }
    if message is not None:
        assert refusal.message == message
    sent = refusal.body.get("details") or {}
    assert {key: sent.get(key) for key in details} == details


async def next_events(events: AsyncIterator[Event], count: int) -> list[Event]:
    """The next `count` events that are not bookmarks of an idle watch."""
    found: list[Event] = []
    async with asyncio.timeout(WAIT_SECONDS):
        while len(found) < count:
            event = await anext(events)
            if event.type != "BOOKMARK" or is_initial_end(event):
                found.append(event)
    return found


def is_initial_end(event: Event) -> bool:
    notes = event.object["metadata"].get("annotations") or {}
    return event.type == "BOOKMARK" and notes.get("k8s.io/initial-events-end") == "true"


def version_of(found: Object) -> int:
    return int(found["metadata"]["resourceVersion"])
