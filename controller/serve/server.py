"""A small HTTP server as a scope: a few fixed paths, each answered by a function.

Only the plain server of aiohttp is used: `aiohttp.web` would bring applications, files and MIME types.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TypeAlias

from aiohttp.web_protocol import RequestHandler
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import ContentCoding, Response, StreamResponse
from aiohttp.web_server import Server

from controller.api.base import Value
from controller.settings import Address

TEXT = "text/plain; charset=utf-8"

MOST_IDLE = 50
IDLE_SECONDS = 150.0
"""Seconds that an idle connection is kept: longer than the time between two scrapes."""
SHUTDOWN_SECONDS = 1.0
METHODS = ("GET", "HEAD")
MORE_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 405: {"Allow": ", ".join(METHODS)}}
"""Headers that HTTP requires with a status code."""
ZIP_FROM = 1024
"""Bytes. Larger pages are compressed for clients that accept it."""
ZIP_APART = 16 * 1024
"""Bytes. Larger pages are compressed in a thread, not on the event loop."""


class CannotListen(Exception):
    """The address is in use or not ours. The text names the option with this address."""


class Asked(Value):
    """The parts of a request that a page needs."""

    verbose: bool = False
    accept: str = ""


class ServedPage(Value):
    body: bytes
    status: int = 200
    content_type: str = TEXT


Route: TypeAlias = Callable[[Asked], ServedPage | Awaitable[ServedPage]]
Guard: TypeAlias = Callable[[str, str], Awaitable[ServedPage | None]]
"""Gets the `Authorization` header and the path; returns a refusal, or None to allow."""


def text(words: str, status: int = 200) -> ServedPage:
    return ServedPage(body=words.encode(), status=status)


@asynccontextmanager
async def serving(
    address: Address | None,
    routes: Mapping[str, Route],
    *,
    option: str,
    tls: ssl.SSLContext | None = None,
    guard: Guard | None = None,
) -> AsyncIterator[int | None]:
    """Answer `routes` (by path) while the block runs; yields the port, or None if `address` is None.

    `guard` judges each request for one of them first. Raises `CannotListen`, which names `option`, for example
    `--metrics-bind-address`.
    """
    if address is None:
        yield None
        return
    server = _Bounded(routes, guard)
    loop = asyncio.get_running_loop()
    try:
        listening = await loop.create_server(server, address.host or None, address.port, ssl=tls)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise CannotListen(f"{option}: cannot listen on {address}: {why}") from error
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
        await asyncio.sleep(0)  # requests that have come are now being answered; other connections are idle
        server.pre_shutdown()
        await server.shutdown(SHUTDOWN_SECONDS)


async def _answer(request: BaseRequest, routes: Mapping[str, Route], guard: Guard | None) -> StreamResponse:
    refusal = None
    if guard is not None and request.path in routes:
        refusal = await guard(request.headers.get("Authorization", ""), request.path)
    page = refusal or await _page(request, routes)
    headers = {"Content-Type": page.content_type, **MORE_HEADERS.get(page.status, {})}
    response = Response(status=page.status, body=page.body, headers=headers, zlib_executor_size=ZIP_APART)
    if len(page.body) >= ZIP_FROM and _takes_gzip(request.headers.get("Accept-Encoding", "")):
        response.enable_compression(ContentCoding.gzip)
    return response


async def _page(request: BaseRequest, routes: Mapping[str, Route]) -> ServedPage:
    route = routes.get(request.path)
    if route is None:
        return text(f"not here; there is {', '.join(routes)}\n", 404)
    if request.method not in METHODS:
        return text("only GET and HEAD\n", 405)
    page = route(Asked(verbose="verbose" in request.query, accept=request.headers.get("Accept", "")))
    return page if isinstance(page, ServedPage) else await page


def _takes_gzip(accepted: str) -> bool:
    """Whether this Accept-Encoding allows gzip."""
    for part in accepted.lower().split(","):
        coding, _, weight = part.replace(" ", "").partition(";q=")
        if coding in ("gzip", "*"):
            return weight.strip("0.") != "" or not weight
    return False


class _Bounded(Server):
    """A server with a bounded number of idle connections: of those on which no answer is due, `MOST_IDLE` are kept,
    and a further one ends the one that has been idle longest. So nobody can keep a probe or a scraper out by holding
    connections.

    The number of requests that wait for an answer is not bounded here: a page that waits has to bound it itself.
    """

    def __init__(self, routes: Mapping[str, Route], guard: Guard | None) -> None:
        super().__init__(self._answered, access_log=None, keepalive_timeout=IDLE_SECONDS)
        self._routes, self._guard = routes, guard
        self._idle: dict[RequestHandler, asyncio.Transport] = {}
        """Connections without a due answer, the longest idle first."""

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self._rests(handler, transport)

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self._idle.pop(handler, None)

    async def _answered(self, request: BaseRequest) -> StreamResponse:
        handler = request.protocol
        transport = self._idle.pop(handler, None)
        try:
            return await _answer(request, self._routes, self._guard)
        finally:
            if transport is not None and not transport.is_closing():
                self._rests(handler, transport)

    def _rests(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        self._idle[handler] = transport
        if len(self._idle) <= MOST_IDLE:
            return
        done = (one for one, way in self._idle.items() if not way.get_write_buffer_size())  # its answer is sent
        self._idle.pop(next(done, next(iter(self._idle)))).abort()
