"""A `Transport` into a simulated cluster without sockets, so that it works in virtual time too; and the bytes of one
open watch, as they reach the client: late, cut or not at all, if the fault plan says so."""

from __future__ import annotations

import asyncio
import math
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import formatdate
from typing import TypeAlias

import msgspec

from controller.kube.requests import NotConnected, Request, Response
from tests.beds.simulator import api, faults
from tests.beds.simulator.cluster import Cluster
from tests.beds.simulator.faults import Effect, FaultPlan
from tests.beds.simulator.reading import close_watch
from tests.beds.simulator.refusal import Refused
from tests.beds.simulator.route import Route, route
from tests.beds.simulator.store import Watch

BETWEEN_BOOKMARKS = 60.0
LONGEST_WATCH = 2700.0
"""Seconds, when the client names no timeoutSeconds; a server takes 30 to 60 minutes."""


class ErrorStream:
    """The answer to a watch that was not opened."""

    def __init__(self, response: Response) -> None:
        self.status = response.status
        self.retry_after, self.date = response.retry_after, response.date
        self._body = response.body

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._body


class WatchStream:
    """A watch that was opened: lines come when the cluster changes, and bookmarks when it does not."""

    status = 200
    retry_after: float | None = None

    def __init__(
        self, cluster: Cluster, watch: Watch, request: Request, effect: Effect | None, on_fault: OnFault
    ) -> None:
        self.watch = watch
        self.date = formatdate(cluster.clock(), usegmt=True)
        self._cluster, self._effect, self._on_fault = cluster, effect, on_fault
        self._silence = request.timeout
        self._loop = asyncio.get_running_loop()
        asked = dict(request.query).get("timeoutSeconds") or "0"
        self._end = self._loop.time() + (float(asked) or LONGEST_WATCH)
        self._late = effect.seconds if isinstance(effect, faults.LateWatch) else 0.0
        self._waiting: deque[tuple[float, list[bytes]]] = deque()
        """Bunches of lines, each with the time from which the client may see it."""
        self._something = asyncio.Event()
        self._broken = False
        self._left = (
            effect.events if isinstance(effect, faults.CutLine | faults.CloseWatch | faults.ErrorEvent) else -1
        )
        """Events until the fault; -1 for none."""
        self._idle = effect.seconds if isinstance(effect, faults.CutIdle) else math.inf
        self._over = False
        watch.wake = self._arrived
        self._arrived()

    def reset(self) -> None:
        """Break the connection."""
        self._broken = True
        self._something.set()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Raises ConnectionResetError when the connection breaks, TimeoutError after too long a silence."""
        bookmark, cut = self._loop.time() + BETWEEN_BOOKMARKS, self._loop.time() + self._idle
        while True:
            if self._broken or self._loop.time() >= cut:
                if not self._broken:
                    self._fired()
                raise ConnectionResetError("injected fault: the watch is cut off")
            now = self._loop.time()
            if self._waiting and self._waiting[0][0] <= now:
                if chunk := self._with_fault(self._waiting.popleft()[1]):
                    yield chunk
                    cut = self._loop.time() + self._idle
                if self._over:
                    self._finish()
                    return
                continue
            if (self.watch.closed and not self._waiting) or now >= self._end:
                return
            if self.watch.bookmarks and now >= bookmark:
                bookmark = now + BETWEEN_BOOKMARKS
                self.watch.bookmark(self._cluster.store.version)
                continue
            await self._wait(min(bookmark if self.watch.bookmarks else self._end, self._end, cut))

    def _arrived(self) -> None:
        if lines := self.watch.take():
            late = self._late
            if isinstance(self._effect, faults.LateBookmark) and any(b'"BOOKMARK"' in one[:20] for one in lines):
                late = self._effect.seconds
            if late:
                self._fired()
            self._waiting.append((self._loop.time() + late, lines))
        self._something.set()

    def _fired(self) -> None:
        if self._effect is not None:
            self._on_fault(self._effect)

    async def _wait(self, until: float) -> None:
        if self._waiting:
            until = min(until, self._waiting[0][0])
        self._something.clear()
        silence = None if self._silence is None else self._loop.time() + self._silence
        try:
            async with asyncio.timeout_at(until if silence is None else min(until, silence)):
                await self._something.wait()
        except TimeoutError:
            if silence is not None and silence < until:
                raise TimeoutError(f"no byte for {self._silence} s") from None

    def _with_fault(self, lines: list[bytes]) -> bytes:
        """What to send: all lines, or what the fault leaves of them."""
        if self._left < 0:
            return b"".join(lines)
        whole, rest = lines[: self._left], lines[self._left :]
        self._left -= len(whole)
        if self._left or (self._cuts and not rest):
            return b"".join(whole)
        self._over = True
        self._fired()
        if self._cuts:
            whole.append(rest[0][: len(rest[0]) // 2])
        if isinstance(self._effect, faults.ErrorEvent):
            refused = Refused(self._effect.status, self._effect.reason, self._effect.message)
            whole.append(b'{"type":"ERROR","object":%s}\n' % refused.body())
        return b"".join(whole)

    @property
    def _cuts(self) -> bool:
        return isinstance(self._effect, faults.CutLine)

    def _finish(self) -> None:
        """The end that the fault asks for."""
        if self._cuts or (isinstance(self._effect, faults.CloseWatch) and self._effect.reset):
            raise ConnectionResetError("injected fault: the watch is cut off")


OnFault: TypeAlias = Callable[[Effect], None]


def _unnoticed(_: Effect) -> None:
    """Without a count."""


WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True)
class ServedRequest:
    """One request that the server has answered, or has cut off."""

    route: Route
    status: int
    """0: it got no answer."""
    at: float
    """The loop's time of the answer."""
    request: Request


class InProcess:
    """One client's way to `cluster`. Give the client under test `faults`, and the nodes a way of their own.

    Each request takes `latency` seconds of the loop's time, half before it is carried out and half after.
    """

    def __init__(
        self, cluster: Cluster, *, faults: FaultPlan | None = None, latency: float = 0.0, keep: int | None = None
    ) -> None:
        self.cluster = cluster
        self.faults = faults or FaultPlan()
        self.latency = latency
        self.seen: deque[ServedRequest] = deque(maxlen=keep)
        """The requests so far, or the last `keep` of them; clear it when it gets in the way."""
        self.on_fault: OnFault = _unnoticed
        """Told of each effect when it happens."""
        self.on_arrival: Callable[[Request], None] = lambda _: None
        """Told of each request that reaches the server, before that answers."""
        self.up = True
        """False: connections are refused. See also `drop_watches`."""
        self._streams: dict[WatchStream, None] = {}  # a set would have an order of its own in each process

    def counts(self) -> Counter[str]:
        """How many requests of each sort so far: `create pods`, `patch daemonsets.apps.kruise.io/status` …"""
        return Counter(f"{seen.route.verb} {seen.route.resource}" for seen in self.seen)

    def writes(self, resource: str = "") -> list[ServedRequest]:
        """The writes so far, those of one resource if told."""
        return [seen for seen in self.seen if seen.route.verb in WRITES and resource in ("", seen.route.resource)]

    def drop_watches(self, resource: str = "") -> int:
        """Break the connections of all open watches, those of one resource if told; returns how many there were."""
        dropped = [stream for stream in self._streams if resource in ("", stream.watch.kind.resource)]
        for stream in dropped:
            stream.reset()
        return len(dropped)

    async def exchange(self, request: Request) -> Response:
        where = route(request)
        status = 0
        try:
            async with asyncio.timeout(request.timeout):
                response = await self._answer(request, where)
            status = response.status
            return response
        finally:
            self._note(request, where, status)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[WatchStream | ErrorStream]:
        where = route(request)
        effect = self.faults.effect_on(where)
        if isinstance(effect, faults.Answer | faults.NoConnection | faults.LoseRequest | faults.Hang):
            self.on_fault(effect)
        async with asyncio.timeout(request.timeout):
            early = await self._early(effect)
            await self._pause()
        if early is not None:
            self._note(request, where, early.status)
            yield ErrorStream(early)
            return
        try:
            watch = api.watch(self.cluster, request)
        except Refused as refused:
            self._note(request, where, refused.code)
            yield ErrorStream(Response(status=refused.code, body=refused.body(), retry_after=refused.retry_after))
            return
        self._note(request, where, 200)
        stream = WatchStream(self.cluster, watch, request, effect, self.on_fault)
        self._streams[stream] = None
        try:
            yield stream
        finally:
            self._streams.pop(stream, None)
            close_watch(self.cluster, watch)

    async def _answer(self, request: Request, where: Route) -> Response:
        effect = self.faults.effect_on(where)
        if effect is not None:
            self.on_fault(effect)
        if isinstance(effect, faults.LateRequest):
            asyncio.get_running_loop().call_later(effect.seconds, api.handle, self.cluster, request)
            raise ConnectionResetError("injected fault: the request is late")
        early = await self._early(effect)
        if early is not None:
            return early
        await self._pause()
        stale_version = None
        if isinstance(effect, faults.StaleList):
            kind = self.cluster.find_kind(where.group, where.plural)
            if kind is not None:
                moment = self.cluster.clock() - effect.seconds
                stale_version = self.cluster.store.histories[kind].version_at(moment)
        if request.permission is not None:
            request.permission()
        self.on_arrival(request)
        response = api.handle(self.cluster, request, stale_version=stale_version)
        if isinstance(effect, faults.LoseAnswer):
            if not effect.status:
                raise ConnectionResetError("injected fault: the answer is lost")
            return _status(effect.status, "", "injected fault: the answer is lost")
        if isinstance(effect, faults.Hang) and effect.done:
            await _sleep(effect.seconds)
        await self._pause()
        if isinstance(effect, faults.Warn):
            name = msgspec.json.decode(response.body).get("metadata", {}).get("name", "")
            return msgspec.structs.replace(response, warning_headers=(effect.header.replace("{name}", name),))
        return response

    async def _early(self, effect: Effect | None) -> Response | None:
        """What happens before anything is done; an answer ends the matter."""
        if not self.up or isinstance(effect, faults.NoConnection):
            await asyncio.sleep(0)
            raise NotConnected("injected fault: connection refused")
        if isinstance(effect, faults.LoseRequest):
            await asyncio.sleep(0)
            raise ConnectionResetError("injected fault: the request is lost")
        if isinstance(effect, faults.Hang) and not effect.done:
            await _sleep(effect.seconds)
        if isinstance(effect, faults.Answer):
            await self._pause()
            return _status(effect.status, effect.reason, effect.message, effect.retry_after)
        return None

    async def _pause(self) -> None:
        await asyncio.sleep(self.latency / 2)

    def _note(self, request: Request, where: Route, status: int) -> None:
        self.seen.append(ServedRequest(where, status, asyncio.get_running_loop().time(), request))


async def _sleep(seconds: float | None) -> None:
    if seconds is None:
        await asyncio.Event().wait()
    else:
        await asyncio.sleep(seconds)


def _status(code: int, reason: str, message: str, retry_after: float | None = None) -> Response:
    known = {429: "TooManyRequests", 500: "InternalError", 409: "Conflict", 410: "Expired", 504: "Timeout"}
    refused = Refused(code, reason or known.get(code, ""), message, {}, retry_after=retry_after)
    return Response(status=code, body=refused.body(), retry_after=retry_after)
