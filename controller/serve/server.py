"""A small HTTP server as a scope: a few fixed paths, each answered by a function.

Of aiohttp only its plain server is used: `aiohttp.web` would bring applications, files and their MIME types.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TypeAlias

from aiohttp.web_request import BaseRequest
from aiohttp.web_response import ContentCoding, Response, StreamResponse

from controller.api.base import Value
from controller.serve.address import Address
from controller.serve.connections import Bounded

TEXT = "text/plain; charset=utf-8"

SHUTDOWN_SECONDS = 1.0
METHODS = ("GET", "HEAD")
MORE_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 405: {"Allow": ", ".join(METHODS)}}
"""What HTTP wants to go with a status."""
ZIP_FROM = 1024
"""Bytes from which a page is compressed for those who ask."""
ZIP_APART = 16 * 1024
"""Bytes from which that is done beside the event loop."""


class CannotListen(Exception):
    """The address is taken or not ours. The text names the option that asked for it."""


class Asked(Value):
    """What a page needs to know of a request."""

    verbose: bool = False
    accept: str = ""


class ServedPage(Value):
    body: bytes
    status: int = 200
    content_type: str = TEXT


Route: TypeAlias = Callable[[Asked], ServedPage | Awaitable[ServedPage]]
Guard: TypeAlias = Callable[[str, str], Awaitable[ServedPage | None]]
"""The `Authorization` header and the path to a refusal, or to None."""


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
    """Answer `routes` (by path) while the block runs; yields the port, or None when it is turned off.

    With `guard` each request for one of them is judged first. Raises `CannotListen`, naming `option`, for instance
    `--metrics-bind-address`.
    """
    if address is None:
        yield None
        return
    server = Bounded(_answering(routes, guard))
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
        await asyncio.sleep(0)  # what has come is now being answered, and idle is what has nothing to wait for
        server.pre_shutdown()
        await server.shutdown(SHUTDOWN_SECONDS)


def _answering(
    routes: Mapping[str, Route], guard: Guard | None
) -> Callable[[BaseRequest], Awaitable[StreamResponse]]:
    async def answer(request: BaseRequest) -> StreamResponse:
        refusal = None
        if guard is not None and request.path in routes:
            refusal = await guard(request.headers.get("Authorization", ""), request.path)
        page = refusal or await _page(request, routes)
        headers = {"Content-Type": page.content_type, **MORE_HEADERS.get(page.status, {})}
        response = Response(status=page.status, body=page.body, headers=headers, zlib_executor_size=ZIP_APART)
        if len(page.body) >= ZIP_FROM and _takes_gzip(request.headers.get("Accept-Encoding", "")):
            response.enable_compression(ContentCoding.gzip)
        return response

    return answer


async def _page(request: BaseRequest, routes: Mapping[str, Route]) -> ServedPage:
    route = routes.get(request.path)
    if route is None:
        return text(f"not here; there is {', '.join(routes)}\n", 404)
    if request.method not in METHODS:
        return text("only GET and HEAD\n", 405)
    page = route(Asked(verbose="verbose" in request.query, accept=request.headers.get("Accept", "")))
    return page if isinstance(page, ServedPage) else await page


def _takes_gzip(accepted: str) -> bool:
    """Whether an Accept-Encoding names gzip and does not weigh it with 0."""
    for part in accepted.lower().split(","):
        coding, _, weight = part.replace(" ", "").partition(";q=")
        if coding in ("gzip", "*"):
            return weight.strip("0.") != "" or not weight
    return False
