"""A `Transport` into a simulated cluster without sockets, so that it works in virtual time too."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec

from controller.kube.requests import NotConnected, Request, Response
from tests.beds.simulator import api, faults
from tests.beds.simulator.cluster import Cluster
from tests.beds.simulator.faults import Effect, FaultPlan
from tests.beds.simulator.reading import close_watch
from tests.beds.simulator.refusal import Refused
from tests.beds.simulator.route import Route, route
from tests.beds.simulator.stream import ErrorStream, WatchStream

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
        self,
        cluster: Cluster,
        *,
        faults: FaultPlan | None = None,
        latency: float = 0.0,
        bookmark_seconds: float = 60.0,
        keep: int | None = None,
    ) -> None:
        self.cluster = cluster
        self.faults = faults or FaultPlan()
        self.latency = latency
        self.seen: deque[ServedRequest] = deque(maxlen=keep)
        """The requests so far, or the last `keep` of them; clear it when it gets in the way."""
        self.up = True
        """False: connections are refused. See also `drop_watches`."""
        self._bookmark_seconds = bookmark_seconds
        self._streams: set[WatchStream] = set()

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
        stream = WatchStream(self.cluster, watch, request, effect, self._bookmark_seconds)
        self._streams.add(stream)
        try:
            yield stream
        finally:
            self._streams.discard(stream)
            close_watch(self.cluster, watch)

    async def _answer(self, request: Request, where: Route) -> Response:
        effect = self.faults.effect_on(where)
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
