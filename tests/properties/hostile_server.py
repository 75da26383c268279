"""An API server that has the objects it was given, and refuses every pod in words that quote it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import msgspec

from controller.kube.requests import Request, Response
from tests.beds.virtual_time import answered

CHUNK = 64 * 1024
END = (
    b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"900",'
    b'"annotations":{"k8s.io/initial-events-end":"true"}}}}'
)
QUOTED = 20_000
"""Characters of a pod that are told back."""


class Feed:
    """One watch: the initial objects, then what is sent."""

    status = 200
    retry_after: float | None = None

    def __init__(self, lines: Sequence[bytes]) -> None:
        self._parts: asyncio.Queue[bytes] = asyncio.Queue()
        for line in lines:
            self.send(line)

    def send(self, line: bytes) -> None:
        for start in range(0, len(line) + 1, CHUNK):
            self._parts.put_nowait((line + b"\n")[start : start + CHUNK])

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            await asyncio.sleep(0)  # bytes come from outside of the loop
            yield await self._parts.get()


class HostileServer:
    """Implements `Transport`. `objects`: by plural, each as JSON."""

    def __init__(self, objects: Mapping[str, Sequence[bytes]]) -> None:
        self._objects = objects
        self._feeds: dict[str, Feed] = {}
        self._version = 1000
        self.asked: list[str] = []
        """Method and path of every request."""

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Feed]:
        plural = request.path.rpartition("/")[2]
        added = [b'{"type":"ADDED","object":' + one + b"}" for one in self._objects.get(plural, ())]
        feed = self._feeds[plural] = Feed([*added, END])
        yield feed

    async def exchange(self, request: Request) -> Response:
        return await answered(self._answer, request)

    def _answer(self, request: Request) -> Response:
        self._version += 1
        plural = next(one for one in reversed(request.path.split("/")) if one in (*self._objects, "events"))
        self.asked.append(f"{request.method} {request.path}")
        meta = f'"uid":"uid-{self._version}","resourceVersion":"{self._version}"'.encode()
        if request.method == "POST" and plural == "pods":
            message = request.body[:QUOTED].decode(errors="replace")
            return Response(
                status=403, body=msgspec.json.encode({"kind": "Status", "reason": "Forbidden", "message": message})
            )
        if request.method == "POST" and plural == "controllerrevisions":
            document = msgspec.json.decode(request.body, type=dict[str, msgspec.Raw])
            document["metadata"] = msgspec.Raw(b"{" + meta + b"," + bytes(document["metadata"])[1:])
            stored = msgspec.json.encode(document)
            self._feeds[plural].send(b'{"type":"ADDED","object":' + stored + b"}")
        return Response(status=200, body=b'{"metadata":{"name":"a",' + meta + b"}}")
