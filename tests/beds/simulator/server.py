"""HTTP before any `Transport`, here before a simulated cluster; and a kubeconfig, as it authenticates no client."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web
from multidict import CIMultiDict

from controller.kube.requests import JSON, Request, Transport
from tests.beds.simulator.route import route

LOOPBACK = "127.0.0.1"


@asynccontextmanager
async def serving(transport: Transport, *, port: int = 0) -> AsyncIterator[str]:
    """Serve on loopback while the block runs; gives the URL. `port` 0 takes a free one."""
    server = web.Server(_Front(transport).handle, handler_cancellation=True)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, LOOPBACK, port)
        await site.start()
        bound = runner.addresses[0][1]
        yield f"http://{LOOPBACK}:{bound}"
    finally:
        await runner.cleanup()


class _Front:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def handle(self, incoming: web.BaseRequest) -> web.StreamResponse:
        request = Request(
            method=incoming.method,
            path=incoming.rel_url.raw_path,
            query=tuple(incoming.query.items()),
            body=await incoming.read(),
            content_type=incoming.content_type,
            timeout=None,
        )
        try:
            if route(request).verb == "watch":
                return await self._stream(incoming, request)
            response = await self._transport.exchange(request)
        except (OSError, TimeoutError):  # the client shall see a broken connection
            if incoming.transport is not None:
                incoming.transport.abort()
            return web.Response(status=500)
        headers = CIMultiDict(_headers(response.retry_after))
        headers.extend(("Warning", header) for header in response.warning_headers)
        return web.Response(status=response.status, body=response.body, headers=headers, content_type=JSON)

    async def _stream(self, incoming: web.BaseRequest, request: Request) -> web.StreamResponse:
        async with self._transport.stream(request) as stream:
            answer = web.StreamResponse(status=stream.status, headers=_headers(stream.retry_after))
            answer.content_type = JSON
            await answer.prepare(incoming)
            async for chunk in stream.chunks():
                await answer.write(chunk)
            await answer.write_eof()
            return answer


def _headers(retry_after: float | None) -> dict[str, str]:
    return {} if retry_after is None else {"Retry-After": str(math.ceil(retry_after))}


def write_kubeconfig(path: Path, url: str) -> None:
    """Write it as JSON, which is YAML too."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "simulator", "cluster": {"server": url}}],
        "users": [{"name": "anybody", "user": {}}],
        "contexts": [{"name": "simulator", "context": {"cluster": "simulator", "user": "anybody"}}],
        "current-context": "simulator",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(config, indent=2) + "\n")
