"""A server of one kind that lists and watches as Kubernetes does, and fails when told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from controller.api.objects import JSON, JSONObject
from controller.kube.requests import NotConnected, Request, Response
from tests.beds.sample_kind import bookmark, error_line, line, page, status, thing

PAGE = 2
"""Objects on a page, whatever limit was asked for: so that few objects make many pages."""


class Feed:
    """One open watch, as the client's end sees it."""

    def __init__(self, code: int, timeout: float | None) -> None:
        self.status = code
        self.retry_after: float | None = None
        self.lost = False
        """Half open: the server sends, nothing arrives, nobody notices."""
        self._timeout = timeout
        self._parts: asyncio.Queue[bytes | OSError | None] = asyncio.Queue()

    def send(self, part: bytes | OSError | None) -> None:
        if not self.lost:
            self._parts.put_nowait(part)

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            async with asyncio.timeout(self._timeout):
                part = await self._parts.get()
            if part is None:
                return
            if isinstance(part, OSError):
                raise part
            yield part


class Server:
    """Implements `Transport`. The methods without underscore beyond that are what happens to the cluster."""

    def __init__(self) -> None:
        self.version = 100
        self.objects: dict[str, JSONObject] = {}
        self.streaming = True
        self.end_marks = True
        self.up = True
        self.next_codes: list[int] = []
        self.requests = 0
        self._uids = 0
        self._history: list[tuple[int, bytes]] = []
        self._compacted = 0
        self._feeds: list[Feed] = []
        self._snapshots: dict[str, tuple[int, list[JSONObject]]] = {}

    # -- what users do

    def put(self, name: str, size: JSON) -> None:
        known = self.objects.get(name)
        self.version += 1
        uid = _uid(known) if known else f"uid-{(uids := self._uids + 1)}"
        if known is None:
            self._uids = uids
        self.objects[name] = thing(name, self.version, size=size, uid=uid)
        self._tell("MODIFIED" if known else "ADDED", self.objects[name])

    def delete(self, name: str) -> None:
        if self.objects.pop(name, None) is not None:
            self.version += 1
            self._tell("DELETED", thing(name, self.version))

    def elsewhere(self) -> None:
        """Another resource was written: the version moves on without us."""
        self.version += 1

    # -- what happens to servers

    def compact(self) -> None:
        self._compacted = self.version
        self._history.clear()

    def send_bookmarks(self) -> None:
        self._broadcast(bookmark(self.version))

    def close(self, error: OSError | None = None) -> None:
        self._broadcast(error)
        self._feeds.clear()

    def expire(self) -> None:
        self._broadcast(error_line(410, "Expired"))
        self.close()

    def garble(self) -> None:
        self._broadcast(b'{"type":"ADDED","object":{"meta\n')
        self.close()

    def lose(self) -> None:
        for feed in self._feeds:
            feed.lost = True

    def ours(self) -> dict[str, tuple[str, str]]:
        """Name → (uid, version) of what a cache should have in the end."""
        return {name: (_uid(obj), _version(obj)) for name, obj in self.objects.items() if _size(obj) != 0}

    # -- what the server answers

    async def exchange(self, request: Request) -> Response:
        await self._arrive()
        if self.next_codes:
            code = self.next_codes.pop()
            return Response(status=code, body=status(code), retry_after=2.0 if code == 429 else None)
        query = dict(request.query)
        token = query.get("continue", "")
        if not token:
            token = f"{self.version}.{self.requests}"
            self._snapshots[token] = (self.version, list(self.objects.values()))
        version, items = self._snapshots.pop(token)
        if version < self._compacted:
            return Response(status=410, body=status(410, "Expired"))
        size = PAGE if "limit" in query else len(items)
        rest = items[size:]
        if rest:
            self._snapshots[token] = (version, rest)
        return Response(status=200, body=page(*items[:size], version=version, token=token if rest else ""))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Feed]:
        await self._arrive()
        feed = self._open(dict(request.query), request.timeout)
        try:
            yield feed
        finally:
            if feed in self._feeds:
                self._feeds.remove(feed)

    def _open(self, query: dict[str, str], timeout: float | None) -> Feed:
        wants_all = "sendInitialEvents" in query
        code = self.next_codes.pop() if self.next_codes else 422 if wants_all and not self.streaming else 200
        feed = Feed(code, timeout)
        if code != 200:
            feed.send(status(code))
            feed.send(None)
            return feed
        if wants_all:
            for obj in self.objects.values():
                feed.send(line("ADDED", obj))
            if self.end_marks:
                feed.send(bookmark(self.version, end=True))
        elif int(query["resourceVersion"]) < self._compacted:
            feed.send(error_line(410, "Expired"))
            feed.send(None)
        else:
            for version, event in self._history:
                if version > int(query["resourceVersion"]):
                    feed.send(event)
        self._feeds.append(feed)
        return feed

    async def _arrive(self) -> None:
        self.requests += 1
        await asyncio.sleep(0.01)
        if not self.up:
            raise NotConnected("connection refused")

    def _tell(self, kind: str, obj: JSONObject) -> None:
        event = line(kind, obj)
        self._history.append((self.version, event))
        self._broadcast(event)

    def _broadcast(self, part: bytes | OSError | None) -> None:
        for feed in self._feeds:
            feed.send(part)


def _meta(obj: JSONObject) -> JSONObject:
    meta = obj["metadata"]
    assert isinstance(meta, dict)
    return meta


def _uid(obj: JSONObject) -> str:
    return str(_meta(obj)["uid"])


def _version(obj: JSONObject) -> str:
    return str(_meta(obj)["resourceVersion"])


def _size(obj: JSONObject) -> object:
    spec = obj["spec"]
    assert isinstance(spec, dict)
    return spec["size"]
