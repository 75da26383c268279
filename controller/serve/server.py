"""A small HTTP server as a scope: a few fixed paths, each answered by a function."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TypeAlias

from aiohttp import web

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


class CannotListen(Exception):  # noqa: N818 - says what is the case
    """The address is taken or not ours. The text names the option that asked for it."""


class Asked(Value):
    """What a page needs to know of a request."""

    verbose: bool = False
    accept: str = ""


class Page(Value):
    body: bytes
    status: int = 200
    content_type: str = TEXT


Route: TypeAlias = Callable[[Asked], Page | Awaitable[Page]]
Guard: TypeAlias = Callable[[str, str], Awaitable[Page | None]]
"""The `Authorization` header and the path to a refusal, or to None."""


def text(words: str, status: int = 200) -> Page:
    return Page(body=words.encode(), status=status)


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
    runner = web.ServerRunner(Bounded(_answering(routes, guard)), shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        site = web.TCPSite(runner, address.host or None, address.port, ssl_context=tls)
        try:
            await site.start()
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            raise CannotListen(f"{option}: cannot listen on {address}: {why}") from error
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def _answering(
    routes: Mapping[str, Route], guard: Guard | None
) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        refusal = None
        if guard is not None and request.path in routes:
            refusal = await guard(request.headers.get("Authorization", ""), request.path)
        page = refusal or await _page(request, routes)
        headers = {"Content-Type": page.content_type, **MORE_HEADERS.get(page.status, {})}
        response = web.Response(status=page.status, body=page.body, headers=headers, zlib_executor_size=ZIP_APART)
        if len(page.body) >= ZIP_FROM and _takes_gzip(request.headers.get("Accept-Encoding", "")):
            response.enable_compression(web.ContentCoding.gzip)
        return response

    return answer


async def _page(request: web.BaseRequest, routes: Mapping[str, Route]) -> Page:
    route = routes.get(request.path)
    if route is None:
        return text(f"not here; there is {', '.join(routes)}\n", 404)
    if request.method not in METHODS:
        return text("only GET and HEAD\n", 405)
    page = route(Asked(verbose="verbose" in request.query, accept=request.headers.get("Accept", "")))
    return page if isinstance(page, Page) else await page


def _takes_gzip(accepted: str) -> bool:
    """Whether an Accept-Encoding names gzip and does not weigh it with 0."""
    for part in accepted.lower().split(","):
        coding, _, weight = part.replace(" ", "").partition(";q=")
        if coding in ("gzip", "*"):
            return weight.strip("0.") != "" or not weight
    return False
