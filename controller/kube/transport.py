"""HTTP by aiohttp. The only file that imports that library's client."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final
from urllib.parse import urlencode

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from multidict import CIMultiDict
from yarl import URL

from controller.kube.connection import Connection
from controller.kube.requests import NotConnected, Request, Response

CONNECT_SECONDS: Final = 10.0
"""Seconds to open a TCP connection; the timeout of the request applies as well."""
LEAST_SECONDS: Final = 0.001
"""The least timeout in seconds, because aiohttp takes 0 as no limit."""
IDLE_CONNECTION_SECONDS: Final = 60.0
"""Seconds until an unused connection is closed: less than load balancers and API servers allow."""
READ_BUFFER: Final = 256 * 1024
"""Bytes. With more, a watch of a busy cluster comes in fewer, larger chunks."""

TLS_BUFFER: Final = 64 * 1024
"""Bytes. asyncio gives each connection a buffer of four times that and fills it with zeros, so that fifty connections
would take 13 MiB; a record of TLS has 16 KiB at most."""

_TCP_OPTIONS: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 5000))
"""Seconds, but TCP_USER_TIMEOUT in milliseconds. A vanished peer is noticed after 40 s of silence, even behind a NAT,
because that option makes Linux give up at the second probe. Data not acknowledged within 5 s is dropped, or a healed
network would deliver the write of a leader that has lost its Lease, even after its process ended. 5 s lie between the
two deadlines of a Lease."""


class AiohttpTransport:
    """A `Transport`. It does without cookies, redirects, proxies from the environment (looking them up more than
    doubles the cost of a request) and compression (on a LAN it costs more CPU than it saves)."""

    def __init__(self, session: aiohttp.ClientSession, connection: Connection, user_agent: str) -> None:
        self._session = session
        self._connection = connection
        self._server = connection.server.rstrip("/")
        self._fixed = CIMultiDict(connection.impersonation)
        self._fixed.extend({"Accept-Encoding": "identity", "User-Agent": user_agent})
        self._headers: dict[tuple[str, str], CIMultiDict[str]] = {}
        self._authorization: str | None = None

    async def exchange(self, request: Request) -> Response:
        loop = asyncio.get_running_loop()
        began = loop.time()
        headers = await self._headers_for(request)
        left = None if request.timeout is None else max(began + request.timeout - loop.time(), LEAST_SECONDS)
        timeout = aiohttp.ClientTimeout(total=left, sock_connect=CONNECT_SECONDS)
        guarded = _CheckedBody(request.body, request.permission) if request.permission is not None else None
        with _mapped_errors(guarded):
            async with await self._send(request, headers, timeout, guarded or request.body) as response:
                answer = await response.read()
                return Response(
                    status=response.status,
                    body=answer,
                    retry_after=_retry_after(response),
                    date=response.headers.get("Date", ""),
                    warning_headers=tuple(response.headers.getall("Warning", ())),
                )

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[_OpenStream]:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=request.timeout)
        headers = await self._headers_for(request)
        with _mapped_errors():
            response = await self._send(request, headers, timeout, request.body)
        try:
            yield _OpenStream(response)
        finally:
            if response.connection is not None and response.connection.transport is not None:
                response.connection.transport.abort()  # an orderly end of TLS would wait while the server sends
            response.close()

    async def _send(
        self,
        request: Request,
        headers: CIMultiDict[str],
        timeout: aiohttp.ClientTimeout,
        body: _CheckedBody | bytes = b"",
    ) -> aiohttp.ClientResponse:
        query = f"?{urlencode(request.query)}" if request.query else ""
        tls_now = self._connection.tls_now
        return await self._session.request(
            request.method,
            URL(f"{self._server}{request.path}{query}", encoded=True),
            data=body or None,
            headers=headers,
            timeout=timeout,
            allow_redirects=False,
            ssl=True if tls_now is None else tls_now(),  # True: the context of the connector
            server_hostname=self._connection.server_name or None,
            proxy=self._connection.proxy or None,
        )

    async def _headers_for(self, request: Request) -> CIMultiDict[str]:
        """Cached until the credentials change. Waits for credentials no longer than the request may take."""
        try:
            async with asyncio.timeout(request.timeout):
                authorization = await self._connection.credentials.authorization()
        except TimeoutError as error:
            raise NotConnected(f"no credentials within {request.timeout:.0f} s") from error
        if authorization != self._authorization:
            self._authorization = authorization
            self._headers.clear()
        kind = (request.content_type, request.accept)
        headers = self._headers.get(kind)
        if headers is None:
            headers = self._fixed.copy()
            headers["Content-Type"], headers["Accept"] = kind
            if authorization:
                headers["Authorization"] = authorization
            self._headers[kind] = headers
        return headers


class _CheckedBody(aiohttp.BytesPayload):
    """A body that checks `permission` first: aiohttp holds back even the headers until the body is written."""

    def __init__(self, body: bytes, permission: Callable[[], None]) -> None:
        super().__init__(body)
        self._permission = permission
        self.refusal: Exception | None = None

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        try:
            self._permission()
        except Exception as refusal:  # whatever the permission raises, for `exchange` to raise again
            self.refusal = refusal
            raise
        await super().write_with_length(writer, content_length)


class _OpenStream:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.retry_after = _retry_after(response)
        self.date = response.headers.get("Date", "")

    async def chunks(self) -> AsyncIterator[bytes]:
        with _mapped_errors():
            while chunk := await self._response.content.readany():
                yield chunk


@asynccontextmanager
async def open_transport(connection: Connection, user_agent: str = "kruise-ds") -> AsyncIterator[AiohttpTransport]:
    """A transport, with its credentials renewed while the block runs. Nothing is sent before the first request."""
    SSLProtocol.max_size = TLS_BUFFER
    connector = aiohttp.TCPConnector(
        ssl=connection.tls or True,
        limit=0,  # the throttle bounds how many requests run at once
        keepalive_timeout=IDLE_CONNECTION_SECONDS,
        socket_factory=_socket,
    )
    session = aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        auto_decompress=False,
        read_bufsize=READ_BUFFER,
    )
    async with session, connection.credentials.renewing():
        yield AiohttpTransport(session, connection, user_agent)


def _socket(
    address: tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[object, ...]],
) -> socket.socket:
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _TCP_OPTIONS:
        if (number := getattr(socket, option, None)) is not None:  # not every system has all of them
            made.setsockopt(socket.IPPROTO_TCP, number, value)
    return made


@contextmanager
def _mapped_errors(guarded: _CheckedBody | None = None) -> Iterator[None]:
    """Translates library errors to those that `Transport` promises. A refusal by `guarded` is raised unchanged."""
    try:
        yield
    except (aiohttp.ClientError, OSError) as error:
        if guarded is not None and guarded.refusal is not None:
            raise guarded.refusal from error
        mapped = _mapped(error)
        if mapped is error:
            raise
        raise mapped from error


def _mapped(error: aiohttp.ClientError | OSError) -> OSError:
    match error:
        case aiohttp.ClientConnectorError():
            return NotConnected(f"{error.host}:{error.port}: {_words(error.os_error)}")
        case aiohttp.ConnectionTimeoutError():
            return NotConnected(f"no connection within {CONNECT_SECONDS:g} s")
        case aiohttp.ClientHttpProxyError():
            return NotConnected(f"the proxy answers {error.status}")
        case TimeoutError():
            return TimeoutError(str(error) or "no answer in time")
        case OSError():
            return error
        case aiohttp.ClientError():
            return ConnectionError(str(error) or type(error).__name__)


def _words(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message.rstrip('.')}"
    if isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    return os.strerror(error.errno) if isinstance(error, ConnectionError) and error.errno else str(error)


def _retry_after(response: aiohttp.ClientResponse) -> float | None:
    """`Retry-After` in seconds. API servers never send its other form, a date."""
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isascii() and value.isdigit() else None
