"""Sends requests to one API server, through a `Throttle` that limits concurrency and rate."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from copy import copy
from typing import TypeVar

import msgspec

from controller.api.objects import Value
from controller.kube import errors
from controller.kube.decode import UNREADABLE, Lines
from controller.kube.errors import ApiError, ConfigError, Resend, TooManyRequests, Unauthorized, classify
from controller.kube.requests import Refresh, Request, Response, Stream, Transport

T = TypeVar("T")

CALL_SECONDS = 30.0
"""Seconds within which a call ends, including waits for its permit and for a busy server."""
PERMIT_SHARE = 0.8
"""Fraction of `CALL_SECONDS` within which a call must get its permit. A request sent at the last moment may be
carried out although its answer comes too late; a call without a permit has certainly done nothing."""
CEILING = 50
"""The most shared permits. Beyond some tens of requests, an API server only queues them."""
STEP_SECONDS = 1.0
"""Seconds without a 429 until a permit is added; several 429s within that time count as one."""


class Call(Value):
    verb: str
    """get, list, watch, create, patch or delete."""
    what: str
    """The object or collection, as from `GroupVersionResource.describe`."""


class Exchange(Value):
    """For metrics and traces. `status` is 0 if there was no answer."""

    call: Call
    request: Request
    status: int
    seconds: float
    """Without the wait for a permit; for a watch, until it is open."""
    date: str = ""


class Sender:
    """Sends requests through the throttle. For up to `CALL_SECONDS`, a call waits for a busy server (429, or 503 with
    Retry-After), whatever the verb, as nothing was done yet. After a 401, it is repeated once with new credentials.
    Any other failure raises ApiError at once."""

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
        """`on_response` is called for each exchange, including repeated ones, and `on_warning` for each server
        warning about a write or dry run. Without `refresh`, a 401 is final. `permission` is called before each write,
        and again just before its bytes are sent; if it raises, nothing is sent, and the call raises the same.
        `request_seconds` overrides the limit of every exchange and bounds the opening of streams. It and
        `call_seconds` may be `inf`."""
        self._transport, self._throttle = transport, throttle or Throttle()
        self._queue = RequestQueue(self._throttle)
        self._on_response, self._on_warning = on_response, on_warning
        self._refresh, self._permission = refresh, permission
        self._call_seconds, self._request_seconds = call_seconds, request_seconds

    def with_reserved_permit(self, on_warning: Callable[[str], None] | None = None) -> Sender:
        """A sender with a permit of its own besides the shared ones, and optionally another listener."""
        other = copy(self)
        other._on_warning = on_warning or self._on_warning
        other._queue = RequestQueue(self._throttle, reserved=1)
        return other

    async def send(self, call: Call, request: Request) -> Response:
        """The answer, if it is a 2xx. Raises ApiError otherwise."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        permit_deadline, deadline = began + PERMIT_SHARE * self._call_seconds, began + self._call_seconds
        is_renewed = False
        while True:
            response = await self._exchange(call, request, permit_deadline, deadline)
            if 200 <= response.status < 300:
                return response
            error = errors.response_error(call.verb, call.what, response)
            resend = classify(error).resend
            if resend is Resend.WITH_NEW_CREDENTIALS and self._refresh and not is_renewed:
                is_renewed = True
                await self._renew(error)
                continue
            pause = error.retry_after if resend is Resend.AFTER_DELAY else None
            if pause is None or loop.time() + pause >= deadline:
                raise error
            await asyncio.sleep(pause)

    async def answer(self, call: Call, request: Request, type_: type[T], *, stores: bool = False) -> T:
        """The fields of `type_` in the answer. If it is malformed, raises Unreadable, or UnknownOutcome if the
        request `stores` something, which may have been done."""
        body = (await self.send(call, request)).body
        try:
            return msgspec.json.decode(body, type=type_)
        except UNREADABLE as error:
            if stores:
                lost = ConnectionError(f"unreadable answer: {error}")
                raise errors.no_response_error(call.verb, call.what, lost) from error
            raise errors.Unreadable(call.verb, call.what, str(error)) from error

    @asynccontextmanager
    async def stream(self, call: Call, request: Request) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        """Opens a long-lived stream, which bypasses the throttle, as an iterator over batches of lines."""
        began = asyncio.get_running_loop().time()
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(_finite(self._request_seconds)):
                    stream = await stack.enter_async_context(self._transport.stream(request))
            except (OSError, TimeoutError) as error:
                self._report(call, request, 0, began)
                raise errors.no_response_error(call.verb, call.what, error) from error
            self._report(call, request, stream.status, began, stream.date)
            if stream.status != 200:
                raise await self._stream_error(call, stream)
            lines = _lines(call, stream)
            await stack.enter_async_context(aclosing(lines))
            yield lines

    async def _stream_error(self, call: Call, stream: Stream) -> ApiError:
        try:
            body = b"".join([chunk async for chunk in stream.chunks()])
        except (OSError, TimeoutError):
            body = b""  # the status code alone says enough
        response = Response(status=stream.status, body=body, retry_after=stream.retry_after)
        error = errors.response_error(call.verb, call.what, response)
        if classify(error).resend is Resend.WITH_NEW_CREDENTIALS:
            await self._renew(error)  # for the next stream
        return error

    async def _renew(self, error: ApiError) -> None:
        if self._refresh is None:
            return
        try:
            await self._refresh()
        except ConfigError as why:
            message = f"{error.message}; {why}"
            raise Unauthorized(error.verb, error.what, message, status=error.status) from why

    async def _exchange(self, call: Call, request: Request, permit_deadline: float, deadline: float) -> Response:
        """One exchange. Deadlines for its permit and answer are in loop time."""
        loop = asyncio.get_running_loop()
        try:
            await self._queue.acquire(within=max(0.0, permit_deadline - loop.time()))
        except PermitTooLate:
            raise _no_permit(call, PERMIT_SHARE * self._call_seconds) from None
        began = loop.time()
        response = Response(status=0)
        try:
            if (left := deadline - began) <= 0:
                raise _no_permit(call, self._call_seconds)
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
            raise errors.no_response_error(call.verb, call.what, error) from error
        finally:
            self._queue.release(busy=response.status == 429)
            self._report(call, request, response.status, began, response.date)

    def _report(self, call: Call, request: Request, status: int, began: float, date: str = "") -> None:
        if self._on_response:
            seconds = asyncio.get_running_loop().time() - began
            self._on_response(Exchange(call=call, request=request, status=status, seconds=seconds, date=date))


def _no_permit(call: Call, seconds: float) -> TooManyRequests:
    return TooManyRequests(call.verb, call.what, f"no permit within {seconds:g} s")


def _finite(seconds: float | None) -> float | None:
    """None if infinite, as libraries expect."""
    return None if seconds == math.inf else seconds


async def _lines(call: Call, stream: Stream) -> AsyncGenerator[list[bytes]]:
    lines = Lines()
    chunks = stream.chunks()
    try:
        async for chunk in chunks:
            if complete := lines.feed(chunk):
                yield complete
    except (OSError, TimeoutError) as error:
        raise errors.no_response_error(call.verb, call.what, error) from error
    finally:
        if isinstance(chunks, AsyncGenerator):  # the garbage collector would close it outside of our tasks
            await chunks.aclose()


class PermitTooLate(TimeoutError):
    """No permit in time. None was taken."""


class Throttle:
    """The permits that all request queues share. Their number, from 1 to `ceiling`, is halved when the server answers
    429, and raised by one for every second without (additive increase, multiplicative decrease). With `qps` > 0, a
    token bucket (`qps` tokens a second, up to `burst`) limits the rate too; why it is off by default:
    docs/design/decisions.md#the-process. Watches take no permit, because they last. The Lease has its own throttle,
    because it must never wait."""

    def __init__(self, *, ceiling: int = CEILING, qps: float = 0.0, burst: int = 0) -> None:
        self._ceiling = self.permits = ceiling
        """Requests that may be in flight, besides one per queue with a reserved permit."""
        self.taken = 0
        self._queues: deque[RequestQueue] = deque()
        """Queues with waiting requests, each once; some may have become empty."""
        self._changed = self._halved = float("-inf")
        self._interval = 1.0 / qps if qps > 0 else 0.0
        self._saved = self._interval * (max(burst, 1) - 1)
        self._next_token = float("-inf")

    def _answered(self, *, busy: bool) -> None:
        moment = asyncio.get_running_loop().time()
        if busy:
            if moment - self._halved >= STEP_SECONDS:
                self.permits = max(1, self.permits // 2)
                self._halved = moment
            self._changed = moment
        elif self.permits < self._ceiling and moment - self._changed >= STEP_SECONDS:
            self.permits += 1
            self._changed = moment

    def _hand_out(self) -> None:
        """Gives free permits to waiting requests, round-robin across the queues."""
        while self._queues and self.taken < self.permits:
            queue = self._queues.popleft()
            if queue._admit_next():
                self._queues.append(queue)
            else:
                queue._is_listed = False

    async def _take_token(self, within: float) -> None:
        """Takes the next token. Each is issued with its due time, so that order and rate need no timer. Raises
        PermitTooLate if it is due in more than `within` seconds."""
        moment = asyncio.get_running_loop().time()
        due = max(self._next_token, moment - self._saved)
        if due - moment > within:
            raise PermitTooLate
        self._next_token = due + self._interval
        if due > moment:
            await asyncio.sleep(due - moment)


class RequestQueue:
    """A FIFO queue in front of a throttle; every `acquire` needs its `release`. With a `reserved` permit, one of its
    requests may always be in flight, so that slow answers in one queue delay no other; the rest wait for the shared
    permits, which the queues get in turn."""

    def __init__(self, throttle: Throttle, *, reserved: int = 0) -> None:
        self._throttle, self._reserved = throttle, reserved
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_listed = False

    async def acquire(self, within: float = math.inf) -> None:
        """Waits for a permit. If cancelled, none was taken, and `release` is not due. Raises PermitTooLate at once if
        the rate alone would delay it for more than `within` seconds, to limit how many requests wait for a token."""
        throttle = self._throttle
        if throttle._interval:
            await throttle._take_token(within)
        if self._in_flight < self._reserved or throttle.taken < throttle.permits:  # then none waits: see `release`
            self._admit()
            return
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(admitted)
        if not self._is_listed:
            self._is_listed = True
            throttle._queues.append(self)
        try:
            await admitted
        except asyncio.CancelledError:
            if not admitted.cancelled():  # the permit was given at the very moment of the cancellation
                self._give_back()
            raise

    def release(self, *, busy: bool = False) -> None:
        """The request has ended; `busy` if the server answered 429."""
        self._throttle._answered(busy=busy)
        self._give_back()

    def _admit(self) -> None:
        self._in_flight += 1
        if self._in_flight > self._reserved:
            self._throttle.taken += 1

    def _give_back(self) -> None:
        if self._in_flight > self._reserved:
            self._throttle.taken -= 1
        self._in_flight -= 1
        if self._in_flight < self._reserved:
            self._admit_next()
        self._throttle._hand_out()

    def _admit_next(self) -> bool:
        """Admits the request that has waited longest. Returns False if none waits."""
        while self._waiting:
            admitted = self._waiting.popleft()
            if not admitted.done():  # else cancelled
                self._admit()
                admitted.set_result(None)
                return True
        return False
