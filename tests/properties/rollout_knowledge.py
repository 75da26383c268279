"""The controller's way to the server, listened in on: which writes are its own, and what it has been told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from controller.kube.requests import Request, Response, Stream, Transport
from tests.beds.simulator.route import route
from tests.properties.rollout_chronicle import BY_THE_CONTROLLER, Chronicle


class _Meta(msgspec.Struct, rename="camel", frozen=True):
    resource_version: str = "0"
    annotations: dict[str, str] = {}
    continue_: str = msgspec.field(default="", name="continue")


class _Named(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


class _Line(msgspec.Struct, frozen=True):
    type: str
    object: _Named


_decoder = msgspec.json.Decoder(_Line)


class Ear:
    """The controller's `Transport`: marks its writes, and notes what it is told."""

    def __init__(self, inner: Transport, chronicle: Chronicle) -> None:
        self._inner, self._chronicle = inner, chronicle
        self.unguarded: list[str] = []
        """Writes without a precondition."""

    async def exchange(self, request: Request) -> Response:
        where = route(request)
        guards = (b"/metadata/uid", b"/metadata/resourceVersion", b'"preconditions"')
        changes = where.verb in ("patch", "update", "delete") and where.resource != "events"
        if changes and not any(guard in request.body for guard in guards):
            self.unguarded.append(f"{where.verb} {where.resource} {where.name}: {request.body.decode()}")
        written: list[int] = []
        token = BY_THE_CONTROLLER.set(written)
        try:
            response = await self._inner.exchange(request)
            if 200 <= response.status < 300:
                self._chronicle.answered.update(written[:1])  # a deletion is known once the pod is seen to end
                if where.verb == "list":
                    self._note_page(where.resource, response.body)
            return response
        finally:
            BY_THE_CONTROLLER.reset(token)

    def _note_page(self, resource: str, body: bytes) -> None:
        """A list is told when its last page has come."""
        metadata = msgspec.json.decode(body, type=_Named).metadata
        if not metadata.continue_:
            self._chronicle.heard[resource] = int(metadata.resource_version)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        async with self._inner.stream(request) as stream:
            if stream.status != 200:
                yield stream
            else:
                filling = ("sendInitialEvents", "true") in request.query
                yield _Listened(stream, route(request).resource, self._chronicle.heard, filling=filling)


class _Listened:
    """A watch that keeps account of the versions that went through it."""

    retry_after: float | None = None

    def __init__(self, inner: Stream, resource: str, heard: dict[str, int], *, filling: bool) -> None:
        self.status, self._inner = inner.status, inner
        self._resource, self._heard, self._filling = resource, heard, filling

    async def chunks(self) -> AsyncIterator[bytes]:
        chunks: Any = self._inner.chunks()
        try:
            async for chunk in chunks:
                for line in chunk.splitlines():
                    self._note(line)
                yield chunk
        finally:
            await chunks.aclose()

    def _note(self, line: bytes) -> None:
        try:
            event = _decoder.decode(line)
        except msgspec.DecodeError:  # cut in the middle
            return
        metadata = event.object.metadata
        if event.type == "BOOKMARK" and metadata.annotations.get("k8s.io/initial-events-end"):
            self._filling = False
        if not self._filling and event.type != "ERROR":
            self._heard[self._resource] = int(metadata.resource_version)
