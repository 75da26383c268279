"""The TLS certificate of a server: two files that are renewed while it runs.

Measures whether the event loop runs on time.

The pages of the servers: health and readiness, which name the check that fails, and metrics for Prometheus.

A small HTTP server as a scope: a few fixed paths, each answered by a function.

Only the plain server of aiohttp is used: `aiohttp.web` would bring applications, files and MIME types.

Decides who may read a page: those whose bearer token the API server accepts and who may `get` that path.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Protocol, TypeAlias, TypeVar

from aiohttp.web_protocol import RequestHandler
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import ContentCoding, Response, StreamResponse
from aiohttp.web_server import Server

from controller.api.objects import Value
from controller.kube.client import Reviewed
from controller.kube.connection import RotatedTLS
from controller.kube.errors import ApiError, TooManyRequests
from controller.settings import Address


class Certificate:
    """A chain and its key, both PEM. They are checked for each connection, because cert-manager, or whoever writes
    the Secret, renews them in place.

    While the two do not match, as in the middle of a renewal, the last matching ones are used. Making it raises
    OSError or `ssl.SSLError` (a kind of it) if there are none.
    """

    def __init__(self, chain: Path, key: Path) -> None:
        self._chain, self._key = chain, key
        self._now = RotatedTLS(self._load, chain, key)
        self.context = self._load()
        """The context for a server; each connection gets the certificate that is in the files then."""
        self.context.sni_callback = self._shown

    def _shown(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        connection.context = self._now.context()

    def _load(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self._chain, self._key, password=_no_password)
        return context


def _no_password() -> str:
    raise OSError("the key wants a password: nobody is there to type it")


INTERVAL = 0.1
BLOCKED_SECONDS = 10.0
"""Seconds; a leader that was blocked for so long has lost its Lease (`Timing.renew_deadline`)."""


class Heartbeat:
    """When the event loop last ran on time (loop time)."""

    def __init__(self) -> None:
        self.at = asyncio.get_running_loop().time()

    def check(self) -> str:
        """A `Check`: fails if the loop was blocked for longer than `BLOCKED_SECONDS` and has not recovered since."""
        silence = asyncio.get_running_loop().time() - self.at
        return f"the event loop was blocked for {silence:.0f} s" if silence > BLOCKED_SECONDS else ""


@asynccontextmanager
async def heartbeat(on_lag: Callable[[float], None]) -> AsyncIterator[Heartbeat]:
    """Run ten times a second while the block runs, and report how many seconds late each time was."""
    heart = Heartbeat()
    async with asyncio.TaskGroup() as group:
        beating = group.create_task(_beat(heart, on_lag), name="heartbeat")
        yield heart
        beating.cancel()


async def _beat(heart: Heartbeat, on_lag: Callable[[float], None]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + INTERVAL
        await asyncio.sleep(INTERVAL)  # how late it wakes up is what is measured
        heart.at = loop.time()
        on_lag(max(0.0, heart.at - due))


MOST_WAITING = 50
"""Scrapes that may wait at once. They share one page per second, but it has to be sent to each."""
Check: TypeAlias = Callable[[], str]
"""Returns "" if all is well; otherwise what is wrong, on one line."""


def probe(name: str, checks: Mapping[str, Check]) -> Route:
    """The page `name` (healthz, readyz): 200 if all checks are well, else 503.

    It lists the checks if asked (`?verbose`) and if one fails, in the format of the API server.
    """

    def page(asked: Asked) -> ServedPage:
        results = {check: is_well() for check, is_well in checks.items()}
        failed = any(results.values())
        if not failed and not asked.verbose:
            return text("ok")
        lines = [f"[-]{check} failed: {why}" if why else f"[+]{check} ok" for check, why in results.items()]
        lines.append(f"{name} check {'failed' if failed else 'passed'}")
        return text("\n".join(lines) + "\n", 503 if failed else 200)

    return page


def scrape(exposition: Callable[[str], Awaitable[tuple[bytes, str]]]) -> Route:
    """The page /metrics. `exposition` makes the text and its content type for an `Accept` header."""
    waiting = 0

    async def page(asked: Asked) -> ServedPage:
        nonlocal waiting
        if waiting >= MOST_WAITING:
            return text(f"{waiting} scrapes wait already; try again in a second\n", 503)
        waiting += 1
        try:
            body, content_type = await exposition(asked.accept)
        finally:
            waiting -= 1
        return ServedPage(body=body, content_type=content_type)

    return page


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


T = TypeVar("T")

REMEMBERED_SECONDS = 60.0
"""Seconds that an answer is kept: a scraper costs two reviews a minute."""
REMEMBERED = 100
"""Answers that are kept of each kind, acceptances and refusals; when there are more, the oldest is forgotten."""


class Reviewer(Protocol):
    """The part of `controller.kube.client.Reviews` that is needed."""

    async def user_of(self, token: str) -> Reviewed | None: ...

    async def may_get(self, user: Reviewed, path: str) -> bool: ...


_CacheKey: TypeAlias = tuple[bytes, str]
"""The digest of a token, and a path."""


class BearerGuard:
    """A `Guard` that keeps answers for `REMEMBERED_SECONDS`: a revoked right still counts for that long.

    For a caller that was accepted last time, `known` is asked, for any other `unknown`, which may refuse to ask
    (`Busy`). So a flood of made-up tokens gets 429, and never delays a known scraper. A scraper with a new token
    counts as unknown, and succeeds when it tries again.

    Only digests of tokens are kept. `on_failure` is called, synchronously, with the error if the API server could not
    be asked; the caller does not see it.
    """

    def __init__(self, known: Reviewer, unknown: Reviewer, on_failure: Callable[[ApiError], None]) -> None:
        self._known, self._unknown, self._on_failure = known, unknown, on_failure
        self._let_in: dict[_CacheKey, float] = {}
        self._refused: dict[_CacheKey, tuple[float, ServedPage]] = {}

    async def __call__(self, authorization: str, path: str) -> ServedPage | None:
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return text("a bearer token is needed\n", 401)
        key, now = (sha256(token.encode()).digest(), path), asyncio.get_running_loop().time()
        answered, refusal = self._refused.get(key, (-REMEMBERED_SECONDS, None))
        answered = self._let_in.get(key, answered)
        if now - answered < REMEMBERED_SECONDS:
            return refusal
        reviews = self._known if key in self._let_in else self._unknown
        try:
            refusal = await _review(reviews, token, path)
        except TooManyRequests as error:
            if reviews is self._known:
                self._on_failure(error)
            return text("too many tokens that are not known yet; try again in a second\n", 429)
        except ApiError as error:
            self._on_failure(error)
            return text("the API server could not be asked who you are; the log of this pod says why\n", 503)
        self._let_in.pop(key, None)
        self._refused.pop(key, None)
        if refusal is None:
            _keep(self._let_in, key, now)
        else:
            _keep(self._refused, key, (now, refusal))
        return refusal


def _keep(answers: dict[_CacheKey, T], key: _CacheKey, answer: T) -> None:
    if len(answers) >= REMEMBERED:
        del answers[next(iter(answers))]
    answers[key] = answer


async def _review(reviews: Reviewer, token: str, path: str) -> ServedPage | None:
    user = await reviews.user_of(token)
    if user is None:
        return text("the API server does not take this token\n", 401)
    if not await reviews.may_get(user, path):
        return text(f'{user.username} may not get nonResourceURL "{path}"\n', 403)
    return None
