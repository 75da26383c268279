"""One HTTP exchange with an API server as plain values.

Everything above this file builds `Request` values without I/O; everything that moves bytes implements
`Transport`. The two methods of that protocol are the only seam between the product and the network.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

import msgspec

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"


class NotConnected(ConnectionError):
    """There is no connection, so nothing of the request can have reached the server."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of the server. `path` starts with `/api` or `/apis`; `query` values are not yet escaped."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    content_type: str = JSON
    timeout: float | None = 30.0
    """Seconds for the whole exchange. For a stream: seconds of silence after which it counts as dead."""
    permission: Callable[[], None] | None = None
    """Asked when nothing is left to wait for and the next thing is the first byte: a connection may take long to
    open. What it raises leaves `exchange`, and then nothing was sent. Not asked for a stream."""


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """What the server answered, whatever the status code."""

    status: int
    body: bytes = b""
    retry_after: float | None = None
    """Seconds, from the `Retry-After` header, where the server sent one."""
    date: str = ""
    """The `Date` header."""


Query: TypeAlias = tuple[tuple[str, str], ...]
"""Parameters of a request, in their order."""
Refresh: TypeAlias = Callable[[], Awaitable[None]]
"""Gets new credentials into a transport, or raises ConfigError."""


class Stream(Protocol):
    """An open watch: the status line and then bytes, in chunks of any size."""

    status: int
    retry_after: float | None

    def chunks(self) -> AsyncIterator[bytes]:
        """Bytes as they arrive; ends when the server closes. For a status other than 200: the error body."""
        ...


class Transport(Protocol):
    """Moves bytes to one API server and back.

    Both methods raise `OSError` or `TimeoutError` when there is no answer (implementations translate the
    errors of their library), and never look at the status code: 404 and 500 are answers. `NotConnected`, an
    OSError, promises that nothing was sent: then even a create may simply be tried again.
    """

    async def exchange(self, request: Request) -> Response: ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]: ...
