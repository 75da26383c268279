"""A way to the real API server on which single requests hang or are answered by somebody else, such as a proxy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from aiohttp import ClientSession, ClientTimeout, web

from controller.kube.connection import tls_context
from tests.beds.control_plane import ControlPlane
from tests.beds.control_plane.commands import LOOPBACK

PASSED_ON = ("Content-Type", "Accept")


@dataclass
class Fault:
    """What happens to requests like `GET /api/v1/nodes?*`, the first `skip` excepted; to at most `times`, if told."""

    like: str
    status: int = 0
    """0: there is never an answer."""
    body: str = ""
    skip: int = 0
    times: int | None = None
    met: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once it has happened `times` times."""

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
        for fault in self.faults:
            if fault.hits(asked):
                if not fault.status:
                    await asyncio.Event().wait()
                return web.Response(status=fault.status, text=fault.body)
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        headers["Authorization"] = self._token  # over plain http a client sends none
        async with self._session.request(
            request.method,
            f"{self._behind}{request.path_qs}",
            headers=headers,
            data=await request.read(),
            ssl=self._tls,
            timeout=ClientTimeout(total=None),
        ) as answer:
            passed = {name: answer.headers[name] for name in ("Content-Type", "Date") if name in answer.headers}
            response = web.StreamResponse(status=answer.status, headers=passed)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            return response


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
