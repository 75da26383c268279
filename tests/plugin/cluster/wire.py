"""A way to the real API server on which single requests hang or are answered by another server, such as a proxy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from aiohttp import ClientResponse, ClientSession, ClientTimeout, web

from controller.kube.connection import tls_context
from tests.beds.control_plane import ControlPlane
from tests.beds.control_plane.cluster import LOOPBACK

PASSED_ON = ("Content-Type", "Accept", "Impersonate-User", "Impersonate-Group")
WRITE = "PATCH */daemonsets/agent[?]field*"
"""Of `agent`, and no dry run: that is said first."""


@dataclass
class Fault:
    """What happens to requests like `GET /api/v1/nodes?*`, the first `skip` excepted; to at most `times`, if told."""

    like: str
    status: int = 0
    """0: there is never an answer."""
    body: str = ""
    date: str = ""
    """Of the answer; else the present one."""
    done: bool = False
    """The server has done it all the same."""
    before: Callable[[], Awaitable[object]] | None = None
    """What happens right before; then the server answers as ever."""
    skip: int = 0
    times: int | None = None
    met: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once it has happened `times` times, or was done."""

    def hits(self, asked: str) -> bool:
        if not fnmatchcase(asked, self.like):
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.met == self.times:
            return False
        self.met += 1
        if self.met == self.times:
            self.over.set()
        return True


class Wire:
    """`url` leads to the server of `plane`. `faults` may change at any time; the first that fits decides."""

    def __init__(self, plane: ControlPlane, session: ClientSession) -> None:
        self._behind, self._session, self._tls = plane.url, session, tls_context(str(plane.ca_path))
        self._token = f"Bearer {plane.token}"
        self.faults: list[Fault] = []
        self.url = ""

    async def serve(self, request: web.Request) -> web.StreamResponse:
        asked = f"{request.method} {request.path_qs}"
        fault = next((one for one in self.faults if one.hits(asked)), None)
        if fault is None:
            return await self._pass_on(request)
        if fault.before is not None:
            await fault.before()
            return await self._pass_on(request)
        if fault.done:
            async with self._answer(request, await request.read()) as answer:
                answer.raise_for_status()
            fault.over.set()
        if not fault.status:
            await asyncio.Event().wait()
        dated = {"Date": fault.date} if fault.date else {}
        return web.Response(status=fault.status, text=fault.body, headers=dated)

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        async with self._answer(request, await request.read()) as answer:
            passed = {name: answer.headers[name] for name in ("Content-Type", "Date") if name in answer.headers}
            response = web.StreamResponse(status=answer.status, headers=passed)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            return response

    def _answer(self, request: web.Request, body: bytes) -> AbstractAsyncContextManager[ClientResponse]:
        headers = {name: value for name, value in request.headers.items() if name in PASSED_ON}
        headers["Authorization"] = self._token  # over plain http a client sends none
        return self._session.request(
            request.method,
            f"{self._behind}{request.path_qs}",
            headers=headers,
            data=body,
            ssl=self._tls,
            timeout=ClientTimeout(total=None),
        )


@asynccontextmanager
async def faulty_wire(plane: ControlPlane) -> AsyncIterator[Wire]:
    async with ClientSession(auto_decompress=False) as session:
        wire = Wire(plane, session)
        application = web.Application(client_max_size=0)
        application.router.add_route("*", "/{path:.*}", wire.serve)
        runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, LOOPBACK, 0)
            await site.start()
            wire.url = f"http://{LOOPBACK}:{runner.addresses[0][1]}"
            yield wire
        finally:
            await runner.cleanup()
