"""Sends requests: waits for a permit and for a busy server, renews credentials, and reports each exchange."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from copy import copy
from typing import TypeVar

import msgspec

from controller.api.base import Value
from controller.kube import errors
from controller.kube.errors import ApiError, Busy, ConfigError, Unauthorized
from controller.kube.meaning import Resend, meaning_of
from controller.kube.ndjson import Lines
from controller.kube.raw_documents import UNREADABLE
from controller.kube.request import Refresh, Request, Response, Stream, Transport
from controller.kube.throttle import Lane, NoPermit, Throttle

T = TypeVar("T")

CALL_SECONDS = 30.0
"""Seconds within which a call ends, including the waits for its turn and for a busy server."""
PERMIT_SHARE = 0.8
"""Fraction of `CALL_SECONDS` within which a call must get its permit. A request that is sent at the last moment may
be carried out although its answer comes too late; a call without a permit has certainly done nothing."""


class Call(Value):
    """A request in words, for error messages and metrics."""

    verb: str
    """get, list, watch, create, patch, update or delete."""
    what: str
    """The object or collection in words."""


class Exchange(Value):
    """One exchange, for metrics and traces. `status` is 0 if there was no answer."""

    call: Call
    request: Request
    status: int
    seconds: float
    """Seconds of the exchange, without the wait for a turn; for a watch, until it is open."""
    date: str = ""
    """The `Date` header of the answer; empty for a watch."""


class Sender:
    """Puts requests on a transport, each in its turn.

    While the call's `CALL_SECONDS` last, a busy server (429, or 503 with Retry-After) is waited for, whatever the
    verb, because it has done nothing yet. After a 401 the request is sent once more with fresh credentials. Every
    other failure raises an `ApiError` at once. `on_response` is called once for each exchange, also for those that
    are repeated.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        throttle: Throttle | None = None,
        on_response: Callable[[Exchange], None] | None = None,
        refresh: Refresh | None = None,
        on_warning: Callable[[str], None] | None = None,
        permission: Callable[[], None] | None = None,
        call_seconds: float = CALL_SECONDS,
        request_seconds: float | None = None,
    ) -> None:
        """Without `refresh`, a 401 is final. `on_warning` is called with each text by which the server warns of a
        write, or of the dry run of one. `permission` is called before each write, and again just before its
        bytes are sent; what it raises is raised by the call, and nothing was sent.

        `request_seconds` bounds every exchange and the opening of every stream, whatever the request itself says. It
        and `call_seconds` may be `inf`.
        """
        self._transport = transport
        self._throttle = throttle or Throttle()
        self._lane = Lane(self._throttle)
        self._on_response = on_response
        self._on_warning = on_warning
        self._refresh = refresh
        self._permission = permission
        self._call_seconds = call_seconds
        self._request_seconds = request_seconds

    def apart(self, on_warning: Callable[[str], None] | None = None) -> Sender:
        """A sender with a permit of its own, besides those that all senders share, and perhaps another listener."""
        other = copy(self)
        other._on_warning = on_warning or self._on_warning
        other._lane = Lane(self._throttle, own=1)
        return other

    async def send(self, call: Call, request: Request) -> Response:
        """The answer if it is a 2xx; otherwise raises an ApiError."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        turn, deadline = began + PERMIT_SHARE * self._call_seconds, began + self._call_seconds
        refreshed = False
        while True:
            response = await self._exchange(call, request, turn, deadline)
            if 200 <= response.status < 300:
                return response
            error = errors.refused(call.verb, call.what, response)
            resend = meaning_of(error).resend
            if resend is Resend.RENEWED and self._refresh and not refreshed:
                refreshed = True
                await self._renew(error)
                continue
            nap = error.retry_after if resend is Resend.LATER else None
            if nap is None or loop.time() + nap >= deadline:
                raise error
            await asyncio.sleep(nap)  # as the server has asked

    async def answer(self, call: Call, request: Request, type_: type[T], *, stores: bool = False) -> T:
        """The fields of `type_` in the answer; others are ignored. Where it is unreadable, raises Unreadable, or
        Unknown if the request `stores` something, because that may have been done."""
        body = (await self.send(call, request)).body
        try:
            return msgspec.json.decode(body, type=type_)
        except UNREADABLE as error:
            if stores:
                lost = ConnectionError(f"unreadable answer: {error}")
                raise errors.unanswered(call.verb, call.what, lost) from error
            raise errors.Unreadable(call.verb, call.what, str(error)) from error

    @asynccontextmanager
    async def stream(self, call: Call, request: Request) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        """An open stream as an iterator over bunches of lines. It takes no turn at the throttle, because it lasts."""
        began = asyncio.get_running_loop().time()
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(_finite(self._request_seconds)):
                    stream = await stack.enter_async_context(self._transport.stream(request))
            except (OSError, TimeoutError) as error:
                self._report(call, request, 0, began)
                raise errors.unanswered(call.verb, call.what, error) from error
            self._report(call, request, stream.status, began)
            if stream.status != 200:
                raise await self._refused_stream(call, stream)
            lines = _lines(call, stream)
            await stack.enter_async_context(aclosing(lines))
            yield lines

    async def _refused_stream(self, call: Call, stream: Stream) -> ApiError:
        try:
            body = b"".join([chunk async for chunk in stream.chunks()])
        except (OSError, TimeoutError):
            body = b""  # the status code alone says enough
        response = Response(status=stream.status, body=body, retry_after=stream.retry_after)
        error = errors.refused(call.verb, call.what, response)
        if meaning_of(error).resend is Resend.RENEWED:
            await self._renew(error)  # for the next stream
        return error

    async def _renew(self, error: ApiError) -> None:
        if self._refresh is None:
            return
        try:
            await self._refresh()
        except ConfigError as why:
            words = f"{error.message}; {why}"
            raise Unauthorized(error.verb, error.what, words, status=error.status) from why

    async def _exchange(self, call: Call, request: Request, turn: float, deadline: float) -> Response:
        """One exchange, whose turn must come before `turn` and its answer before `deadline` (loop time)."""
        loop = asyncio.get_running_loop()
        try:
            await self._lane.enter(within=max(0.0, turn - loop.time()))
        except NoPermit:
            raise Busy(call.verb, call.what, f"no turn within {PERMIT_SHARE * self._call_seconds:g} s") from None
        began = loop.time()
        response = Response(status=0)
        try:
            left = deadline - began
            if left <= 0:
                raise Busy(call.verb, call.what, f"no turn within {self._call_seconds:g} s")
            own = request.timeout if self._request_seconds is None else self._request_seconds
            timeout = _finite(left if own is None else min(own, left))
            if timeout != request.timeout:
                request = msgspec.structs.replace(request, timeout=timeout)
            if self._permission is not None and request.method != "GET":
                self._permission()
                request = msgspec.structs.replace(request, permission=self._permission)
            response = await self._transport.exchange(request)
            if request.method != "GET" and response.warning_headers and self._on_warning is not None:
                for text in response.warnings():
                    self._on_warning(text)
            return response
        except (OSError, TimeoutError) as error:
            raise errors.unanswered(call.verb, call.what, error) from error
        finally:
            self._lane.leave(busy=response.status == 429)
            self._report(call, request, response.status, began, response.date)

    def _report(self, call: Call, request: Request, status: int, began: float, date: str = "") -> None:
        if self._on_response:
            seconds = asyncio.get_running_loop().time() - began
            self._on_response(Exchange(call=call, request=request, status=status, seconds=seconds, date=date))


def _finite(seconds: float | None) -> float | None:
    """`seconds` as libraries expect it: None for no limit."""
    return None if seconds == math.inf else seconds


async def _lines(call: Call, stream: Stream) -> AsyncGenerator[list[bytes]]:
    lines = Lines()
    chunks = stream.chunks()
    try:
        async for chunk in chunks:
            if complete := lines.feed(chunk):
                yield complete
    except (OSError, TimeoutError) as error:
        raise errors.unanswered(call.verb, call.what, error) from error
    finally:
        if isinstance(chunks, AsyncGenerator):  # the garbage collector would close it outside of our tasks
            await chunks.aclose()
