"""The real transport against a real server on the loopback interface."""

from __future__ import annotations

import asyncio
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from controller.kube import transport
from controller.kube.connection import Connection, Credentials
from controller.kube.requests import JSON_PATCH, NotConnected, Request, Stream
from controller.kube.transport import AiohttpTransport, open_transport
from controller.runtime.leader_election import MISSING_SECONDS
from tests.beds.control_plane.processes import free_port

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
GET = Request(method="GET", path="/api/v1/pods", timeout=5.0)


@asynccontextmanager
async def serving(handler: Handler, **connection: Any) -> AsyncIterator[AiohttpTransport]:
    app = web.Application()
    app.router.add_route("*", "/{anything:.*}", handler)
    async with TestServer(app) as server:
        given = {"server": str(server.make_url("/")), "credentials": Credentials("Bearer t0ken"), **connection}
        async with open_transport(Connection(**given), "kruise-ds/test") as transport:
            yield transport


def sends(*parts: bytes, then: str = "", **answer: Any) -> Handler:
    """A handler that sends these parts of a body and then ends, hangs, or closes or aborts the connection."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(**answer)
        if parts:
            await response.prepare(request)
        for part in parts:
            await response.write(part)
            await asyncio.sleep(0)
        assert request.transport is not None
        match then:
            case "hang":
                await asyncio.Event().wait()
            case "close":
                request.transport.close()
            case "abort":
                request.transport.abort()
        return response

    return handler


async def everything(stream: Stream) -> bytes:
    return b"".join([chunk async for chunk in stream.chunks()])


async def test_a_request_arrives_as_it_was_written() -> None:
    seen: dict[str, object] = {}

    async def handler(request: web.Request) -> web.Response:
        seen.update(request.headers, method=request.method, path=request.raw_path, body=await request.read())
        return web.Response(status=409, body=b"no", headers={"Retry-After": "3"})

    async with serving(handler) as transport:
        response = await transport.exchange(
            Request(
                method="PATCH",
                path="/api/v1/namespaces/a%2Fb/pods/x",
                query=(("dryRun", "All"), ("labelSelector", "a=b c,!d")),
                body=b"[]",
                content_type=JSON_PATCH,
                accept="application/json;as=Table",
            )
        )
    assert (response.status, response.body, response.retry_after) == (409, b"no", 3.0)
    assert parsedate_to_datetime(response.date).tzinfo is not None
    assert seen["method"] == "PATCH"
    assert seen["path"] == "/api/v1/namespaces/a%2Fb/pods/x?dryRun=All&labelSelector=a%3Db+c%2C%21d"
    assert seen["body"] == b"[]"
    assert (seen["Content-Type"], seen["Accept"]) == ("application/json-patch+json", "application/json;as=Table")
    assert seen["Authorization"] == "Bearer t0ken"
    assert seen["User-Agent"] == "kruise-ds/test"
    assert seen["Accept-Encoding"] == "identity"


async def test_a_new_token_is_used_from_the_next_request_on() -> None:
    class Rotating(Credentials):
        token = "one"

        async def authorization(self) -> str | None:
            return self.token

    seen: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        return web.Response()

    credentials = Rotating()
    async with serving(handler, credentials=credentials) as transport:
        await transport.exchange(GET)
        credentials.token = "two"
        await transport.exchange(GET)
    assert seen == ["one", "two"]


async def test_impersonation_is_sent_with_every_request_a_header_per_group() -> None:
    seen: list[tuple[str, list[str]]] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append((request.headers["Impersonate-User"], request.headers.getall("Impersonate-Group")))
        return web.Response()

    impersonation = (("Impersonate-User", "alice"), ("Impersonate-Group", "dev"), ("Impersonate-Group", "ops"))
    async with serving(handler, impersonation=impersonation) as transport:
        await transport.exchange(GET)
        await transport.exchange(Request(method="PATCH", path="/api", content_type=JSON_PATCH))
        async with transport.stream(GET):
            pass
    assert seen == [("alice", ["dev", "ops"])] * 3


async def test_redirects_are_answers_and_are_not_followed() -> None:
    async def handler(request: web.Request) -> web.Response:
        raise web.HTTPFound("http://elsewhere.invalid/")

    async with serving(handler) as transport:
        assert (await transport.exchange(GET)).status == 302


async def test_the_read_buffer_of_a_tls_connection_is_small() -> None:
    """asyncio's own is 256 KiB, for each of fifty connections."""
    async with open_transport(Connection(server="https://127.0.0.1", credentials=Credentials())):
        made: Any = SSLProtocol(
            asyncio.get_running_loop(), asyncio.Protocol(), ssl.create_default_context(), asyncio.Future()
        )
    made._get_app_transport()._closed = True  # or it would warn that it was left open
    assert len(made._ssl_buffer) == 64 * 1024


@pytest.mark.parametrize("tls", [None, ssl.create_default_context()], ids=["nobody listens", "plain http for https"])
async def test_what_cannot_be_opened_is_not_connected(tls: ssl.SSLContext | None) -> None:
    async with TestServer(web.Application()) as server:
        url = f"http://127.0.0.1:{free_port()}" if tls is None else f"https://127.0.0.1:{server.port}"
        async with open_transport(Connection(server=url, credentials=Credentials(), tls=tls)) as transport:
            with pytest.raises(NotConnected, match=r"127\.0\.0\.1"):
                await transport.exchange(GET)
            with pytest.raises(NotConnected):
                async with transport.stream(GET):
                    pass


@pytest.mark.parametrize(
    ("handler", "error"),
    [
        (sends(then="hang"), TimeoutError),
        (sends(then="close"), ConnectionError),
        (sends(b"{", then="close", status=201, headers={"Content-Length": "100"}), ConnectionError),
    ],
    ids=["no answer in time", "a connection that breaks", "an answer that breaks off"],
)
async def test_a_write_without_a_whole_answer_is_an_os_error(handler: Handler, error: type[OSError]) -> None:
    async with serving(handler) as transport:
        with pytest.raises(error) as raised:
            await transport.exchange(Request(method="POST", path="/api", timeout=0.5))
        assert not isinstance(raised.value, NotConnected)


async def test_a_stream_gives_bytes_as_they_come_until_the_server_closes() -> None:
    async with serving(sends(b"one\n", b"tw", b"o\n")) as transport, transport.stream(GET) as stream:
        assert stream.status == 200
        assert await everything(stream) == b"one\ntwo\n"


@pytest.mark.parametrize(("then", "error"), [("hang", TimeoutError), ("abort", ConnectionError)])
async def test_a_stream_that_is_silent_or_breaks_is_an_os_error(then: str, error: type[OSError]) -> None:
    request = Request(method="GET", path="/api", timeout=1.0)  # within which it must open, too
    async with serving(sends(b"x\n", then=then)) as transport, transport.stream(request) as stream:
        with pytest.raises(error):
            await everything(stream)


@pytest.mark.parametrize(("header", "seconds"), [("2", 2.0), ("²", None), ("Wed, 21 Oct 2026 07:28:00 GMT", None)])
async def test_a_refused_stream_has_status_hint_and_body(header: str, seconds: float | None) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(status=429, headers={"Retry-After": header}, body=b"later")

    async with serving(handler) as transport, transport.stream(GET) as stream:
        assert (stream.status, stream.retry_after) == (429, seconds)
        assert await everything(stream) == b"later"


async def test_leaving_a_stream_early_closes_its_connection() -> None:
    closed = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"x\n")
        try:
            await asyncio.Event().wait()
        finally:
            closed.set()
        return response

    app = web.Application()
    app.router.add_get("/{anything:.*}", handler)
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port := free_port())
    await site.start()
    connection = Connection(server=f"http://127.0.0.1:{port}", credentials=Credentials())
    async with open_transport(connection) as transport:
        async with transport.stream(GET) as stream:
            async for _ in stream.chunks():
                break
        async with asyncio.timeout(60):
            await closed.wait()
    await runner.cleanup()


def test_unacknowledged_bytes_are_given_up_before_a_lease_runs_out() -> None:
    made = transport._socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 1)))
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    with made:
        milliseconds = 1 if option is None else made.getsockopt(socket.IPPROTO_TCP, option)  # not everywhere
    assert 0 < milliseconds <= MISSING_SECONDS * 1000
