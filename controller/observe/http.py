"""HTTP servers for probes and metrics, as `aiohttp.web` applications with a bounded number of connections.

/metrics may use TLS, with a certificate renewed in place, and may require a bearer token that the API server accepts.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, TypeAlias

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from aiohttp.web_protocol import RequestHandler

from controller.kube.connection import ReloadedTLS
from controller.kube.errors import ApiError, TooManyRequests
from controller.kube.typed import Reviews
from controller.settings import Address

MAX_IDLE = 50
"""The most connections of one server that wait for a request, or for the client to read an answer."""
KEEP_ALIVE_SECONDS = 150.0
"""Seconds that an idle connection is kept, more than the interval between scrapes."""
SHUTDOWN_SECONDS = 1.0
MAX_WAITING = 50
"""Scrapes that may wait at once: they share one page per second, but each needs its own transfer."""
COMPRESS_FROM = 1024
"""Bytes from which pages are compressed for clients that accept it."""
COMPRESS_IN_THREAD_FROM = 16 * 1024
"""Bytes from which pages are compressed in a thread, not on the event loop."""

HealthCheck: TypeAlias = Callable[[], str]
"""Returns "" if all is well, else one line about what is wrong."""


class CannotListen(Exception):
    """The address is in use or belongs to another host. The text names the option."""


@asynccontextmanager
async def serving(
    address: Address | None,
    pages: Mapping[str, Handler],
    *,
    option: str,
    tls: ssl.SSLContext | None = None,
    middlewares: Sequence[Middleware] = (),
) -> AsyncIterator[int | None]:
    """Serves GET and HEAD for `pages`, by path, inside the block; yields the port, or None without an address. Raises
    CannotListen, which names `option`, such as `--metrics-bind-address`."""
    if address is None:
        yield None
        return
    connections = _Connections()
    app = web.Application(middlewares=[connections.middleware, *middlewares])
    for path, page in pages.items():
        app.router.add_get(path, page)
    runner = web.AppRunner(
        app, access_log=None, keepalive_timeout=KEEP_ALIVE_SECONDS, shutdown_timeout=SHUTDOWN_SECONDS
    )
    await runner.setup()
    assert runner.server is not None
    accept = partial(connections.accept, runner.server)
    try:
        listener = await asyncio.get_running_loop().create_server(accept, address.host or None, address.port, ssl=tls)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise CannotListen(f"{option}: cannot listen on {address}: {why}") from error
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
        await runner.cleanup()  # requests that have come are answered; other connections are closed


class _Connections:
    """Closes the oldest idle connection of a server over the limit, so that no client can block probes or scrapes.
    Pages must bound requests that wait for an answer themselves."""

    def __init__(self) -> None:
        self._answering: set[asyncio.BaseProtocol] = set()

    def accept(self, server: web.Server) -> RequestHandler:
        idle = [connection for connection in server.connections if connection not in self._answering]
        for connection in idle[: len(idle) - MAX_IDLE + 1]:
            if connection.transport is not None:
                connection.transport.abort()  # close() would wait for a client that reads nothing
        return server()

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self._answering.add(request.protocol)
        try:
            response = await handler(request)
        except web.HTTPNotFound as error:
            paths = (resource.canonical for resource in request.app.router.resources())
            error.text = f"not here; there is {', '.join(paths)}\n"
            raise
        finally:
            self._answering.discard(request.protocol)
        if (response.content_length or 0) >= COMPRESS_FROM and _accepts_gzip(request):
            response.enable_compression(web.ContentCoding.gzip)
        return response


def _accepts_gzip(request: web.Request) -> bool:
    for part in request.headers.get("Accept-Encoding", "").lower().split(","):
        coding, _, weight = part.replace(" ", "").partition(";q=")
        if coding in ("gzip", "*"):
            return weight.strip("0.") != "" or not weight
    return False


def probe(name: str, checks: Mapping[str, HealthCheck]) -> Handler:
    """The page healthz or readyz: 200 or 503. Lists the checks, like the API server, for `?verbose` or on failure."""

    async def page(request: web.Request) -> web.Response:
        results = {check: is_well() for check, is_well in checks.items()}
        failed = any(results.values())
        if not failed and "verbose" not in request.query:
            return web.Response(text="ok")
        lines = [f"[-]{check} failed: {why}" if why else f"[+]{check} ok" for check, why in results.items()]
        lines.append(f"{name} check {'failed' if failed else 'passed'}\n")
        return web.Response(text="\n".join(lines), status=503 if failed else 200)

    return page


def scrape(exposition: Callable[[str], Awaitable[tuple[bytes, str]]]) -> Handler:
    """The page /metrics. `exposition` makes the text and its content type for an `Accept` header."""
    waiting = asyncio.Semaphore(MAX_WAITING)

    async def page(request: web.Request) -> web.Response:
        if waiting.locked():
            return web.Response(text=f"{MAX_WAITING} scrapes wait already; try again in a second\n", status=503)
        async with waiting:
            body, content_type = await exposition(request.headers.get("Accept", ""))
        headers = {"Content-Type": content_type}
        return web.Response(body=body, headers=headers, zlib_executor_size=COMPRESS_IN_THREAD_FROM)

    return page


def server_tls(chain: Path, key: Path) -> ssl.SSLContext:
    """A server's TLS context from PEM files, checked on each connection, because cert-manager renews them in place;
    while they do not match, the last matching ones are used. Raises OSError or `ssl.SSLError` if there are none."""

    def load() -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(chain, key, password=_no_password)
        return context

    def select(connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        connection.context = rotated.context()

    rotated = ReloadedTLS(load, chain, key)
    context = load()
    context.sni_callback = select
    return context


def _no_password() -> str:
    raise OSError("the key wants a password, which no option gives")


CACHE_SECONDS = 60.0
"""Seconds that an answer is kept: a scraper costs two reviews a minute."""
CACHE_SIZE = 100
"""Maximum of kept acceptances, and of kept refusals; the oldest is dropped."""


class Refusal(NamedTuple):
    status: int
    text: str


class DelegatedAuth:
    """Serves pages only for bearer tokens that the API server accepts (TokenReview) and that may `get` the path
    (SubjectAccessReview). Answers are kept, by digest of the token, for `CACHE_SECONDS`, even if a right is revoked.

    `known` reviews callers accepted last time, `unknown` all others at a bounded rate: a flood of invalid tokens gets
    429 and delays no known scraper; one with a new token retries. `on_failure` gets the error of a failed review,
    which the caller does not see.
    """

    def __init__(self, known: Reviews, unknown: Reviews, on_failure: Callable[[ApiError], None]) -> None:
        self._known, self._unknown, self._on_failure = known, unknown, on_failure
        self._accepted: dict[tuple[bytes, str], tuple[float, Refusal | None]] = {}
        self._refused: dict[tuple[bytes, str], tuple[float, Refusal | None]] = {}

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.match_info.http_exception is None:  # a page that exists
            refusal = await self.check(request.headers.get("Authorization", ""), request.path)
            if refusal is not None:
                headers = {"WWW-Authenticate": "Bearer"} if refusal.status == 401 else {}
                return web.Response(text=f"{refusal.text}\n", status=refusal.status, headers=headers)
        return await handler(request)

    async def check(self, authorization: str, path: str) -> Refusal | None:
        """Why this `Authorization` header may not get the path; None if it may."""
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return Refusal(401, "a bearer token is needed")
        key, now = (sha256(token.encode()).digest(), path), asyncio.get_running_loop().time()
        cached = self._accepted.get(key) or self._refused.get(key)
        if cached is not None and now - cached[0] < CACHE_SECONDS:
            return cached[1]
        reviews = self._known if key in self._accepted else self._unknown
        try:
            refusal = await _review(reviews, token, path)
        except TooManyRequests as error:
            if reviews is self._known:
                self._on_failure(error)
            return Refusal(429, "too many tokens that are not known yet; try again in a second")
        except ApiError as error:
            self._on_failure(error)
            return Refusal(503, "the API server could not be asked who you are; the log of this pod says why")
        self._accepted.pop(key, None)
        self._refused.pop(key, None)
        answers = self._accepted if refusal is None else self._refused
        if len(answers) >= CACHE_SIZE:
            del answers[next(iter(answers))]
        answers[key] = now, refusal
        return refusal


async def _review(reviews: Reviews, token: str, path: str) -> Refusal | None:
    user = await reviews.user_of(token)
    if user is None:
        return Refusal(401, "the API server does not take this token")
    if not await reviews.may_get(user, path):
        return Refusal(403, f'{user.username} may not get nonResourceURL "{path}"')
    return None
