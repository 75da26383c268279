"""The bench's own eye on the pods of its namespace: the end of every measured time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import NoReturn

import msgspec

from tests.tools.bench.api import Api


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    resource_version: str
    deletion_timestamp: str | None = None


class _Container(msgspec.Struct, frozen=True):
    image: str


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    containers: list[_Container]
    node_name: str = ""


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str


class _Status(msgspec.Struct, frozen=True):
    conditions: list[_Condition] = []


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Meta
    spec: _Spec
    status: _Status = _Status()


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: _Pod


class Seen(msgspec.Struct, frozen=True):
    """One pod as the bench needs it."""

    node: str
    image: str
    ready: bool
    """Ready, and not told to go."""


class PodWatch:
    """All pods of one namespace by name, as told by a watch. Made by `watching`."""

    def __init__(self) -> None:
        self.pods: dict[str, Seen] = {}
        self._ready: dict[str, int] = {}
        self._waiting: tuple[Callable[[], bool], asyncio.Event] | None = None

    def ready(self, image: str) -> int:
        """How many pods of that image are ready."""
        return self._ready.get(image, 0)

    def names_by_node(self) -> dict[str, str]:
        """Node to its ready pod."""
        return {pod.node: name for name, pod in self.pods.items() if pod.ready}

    async def until(self, condition: Callable[[], bool], *, what: str, seconds: float) -> None:
        """Wait until it holds, looking after each event. Raises TimeoutError that says what did not come."""
        if condition():
            return
        met = asyncio.Event()
        self._waiting = condition, met
        try:
            async with asyncio.timeout(seconds):
                await met.wait()
        except TimeoutError:
            raise TimeoutError(
                f"after {seconds:g} s still not {what}: {len(self.pods)} pods, {self._ready}"
            ) from None
        finally:
            self._waiting = None

    def feed(self, event: _Event) -> None:
        name, pod = event.object.metadata.name, event.object
        before = self.pods.pop(name, None)
        if before is not None and before.ready:
            self._ready[before.image] -= 1
        if event.type != "DELETED":
            going = pod.metadata.deletion_timestamp is not None
            ready = not going and any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions)
            image = pod.spec.containers[0].image
            self.pods[name] = Seen(node=pod.spec.node_name, image=image, ready=ready)
            self._ready[image] = self._ready.get(image, 0) + ready
        if self._waiting is not None and self._waiting[0]():
            self._waiting[1].set()


@asynccontextmanager
async def watching(api: Api, namespace: str) -> AsyncIterator[PodWatch]:
    """Watch from now on; the namespace must have no pods yet."""
    watch = PodWatch()
    path = f"/api/v1/namespaces/{namespace}/pods"
    version = (await api.get(f"{path}?limit=1"))["metadata"]["resourceVersion"]
    async with asyncio.TaskGroup() as group:
        task = group.create_task(_follow(api, path, version, watch))
        try:
            yield watch
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def _follow(api: Api, path: str, version: str, watch: PodWatch) -> NoReturn:
    """The server drops a watcher that falls behind in a burst; it then goes on from where it was."""
    decoder = msgspec.json.Decoder(_Event)
    while True:
        async for bunch in api.lines(f"{path}?watch=1&resourceVersion={version}&timeoutSeconds=3600"):
            for line in bunch:
                event = decoder.decode(line)
                version = event.object.metadata.resource_version
                watch.feed(event)
