"""One HTTP exchange with an API server, as values.

Whatever asks the server builds `Request` values, without I/O; whatever moves bytes implements `Transport`. The two
methods of that protocol are the only seam between the product and the network.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

import msgspec

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
"""Server-side apply; its body may be JSON, which is YAML, too."""
PAGE_SIZE = 500
"""Objects in one page of a list, as in client-go (`pager.defaultPageSize`)."""


_WARNING = re.compile(r'(?P<code>\d{3}) \S+ "(?P<text>(?:[^"\\]|\\.)*+)"(?: "[^"]*")?\s*(?:,\s*|\Z)')
"""One warning of a header, which may have several: `299 - "text" "date"`."""
_ESCAPED = re.compile(r"\\(.)")


class NotConnected(ConnectionError):
    """No connection could be opened, so nothing of the request has reached the server."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request. `path` starts with `/api` or `/apis`; values of `query` are not escaped yet."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    content_type: str = JSON
    timeout: float | None = 30.0
    """Seconds for the whole exchange; for a stream, seconds of silence after which it counts as broken. None: no
    limit."""
    permission: Callable[[], None] | None = None
    """Called once the connection is open, just before the first byte is sent, as opening may take long. What it
    raises is raised by `exchange`, and then nothing was sent. Not called for a stream."""


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of the server, with any status code."""

    status: int
    body: bytes = b""
    retry_after: float | None = None
    """Seconds, from the `Retry-After` header; None if the server sent none."""
    date: str = ""
    """The `Date` header; empty if the server sent none."""
    warning_headers: tuple[str, ...] = ()
    """The `Warning` headers as they came."""

    def warnings(self) -> list[str]:
        """The texts of the warnings for people (code 299), each once and on one line."""
        found = [one for header in self.warning_headers for one in _WARNING.finditer(header)]
        texts = [_ESCAPED.sub(r"\1", one["text"]) for one in found if one["code"] == "299"]
        lines = [" ".join(text.encode(errors="replace").decode().split()) for text in texts]
        return list(dict.fromkeys(filter(None, lines)))


Query: TypeAlias = tuple[tuple[str, str], ...]
"""Query parameters of a request, in order."""
Refresh: TypeAlias = Callable[[], Awaitable[None]]
"""Gets new credentials for a transport, or raises ConfigError."""


class Stream(Protocol):
    """An open watch: the status line, then bytes in chunks of any size."""

    status: int
    retry_after: float | None

    def chunks(self) -> AsyncIterator[bytes]:
        """The bytes as they arrive, until the server closes. If the status is not 200, they are the error body."""
        ...


class Transport(Protocol):
    """Moves bytes to one API server and back.

    Both methods raise `OSError` or `TimeoutError` when there is no answer; implementations translate the errors of
    their library. They do not look at the status code: 404 and 500 are answers. `NotConnected`, an OSError, promises
    that nothing was sent, so that even a create may be repeated.
    """

    async def exchange(self, request: Request) -> Response: ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]: ...
