"""The last check before a write: nothing leaves once the process does not lead, however late that turns out."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

import pytest
import pytest_asyncio

from controller.kube.connection import Connection, Credentials
from controller.kube.requests import Request, Response
from controller.kube.sender import Call, Sender
from controller.kube.transport import open_transport
from controller.runtime.clock import elapsed
from controller.runtime.leader_election import Leadership, LeadershipLost

WRITES = (
    Request(method="POST", path="/api/v1/namespaces/a/events", body=b"{}", timeout=5.0),
    Request(method="PATCH", path="/api/v1/namespaces/a/pods/x", body=b"[]", timeout=5.0),
    Request(method="DELETE", path="/api/v1/namespaces/a/pods/x", timeout=5.0),
)
GET = Request(method="GET", path="/api/v1/pods", timeout=5.0)
CALLS = {"POST": "create", "PATCH": "patch", "DELETE": "delete", "GET": "list"}

Send: TypeAlias = Callable[[Request], Awaitable[Response]]
"""Has a request sent by a sender that asks the fence."""


class Fence(Leadership):
    """The leadership of a process, of which a test says what each check finds."""

    def open(self, guard: Callable[[], None]) -> None:
        self.deadline, self._guard = float("inf"), guard

    def check(self) -> None:
        super().check()
        self._guard()


class Listener:
    """A server that keeps every byte and answers `200` to whatever has come whole."""

    def __init__(self) -> None:
        self.heard = b""
        self.connections = 0
        self.left = asyncio.Event()
        """A connection was closed by the other side: all that came through it has been heard."""

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while data := await reader.read(65536):
                self.heard += data
                if _is_whole(self.heard):
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            self.left.set()
        finally:
            writer.close()


def _is_whole(request: bytes) -> bool:
    """A request may come in pieces, its body after its head."""
    head, ended, body = request.partition(b"\r\n\r\n")
    length = re.search(rb"Content-Length: (\d+)", head)
    return bool(ended) and len(body) >= int(length[1] if length else 0)


@pytest_asyncio.fixture
async def listener() -> AsyncIterator[tuple[Listener, Fence, Send]]:
    heard, fence = Listener(), Fence()
    async with await asyncio.start_server(heard.talk, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with open_transport(
            Connection(server=f"http://127.0.0.1:{port}", credentials=Credentials())
        ) as transport:
            sender = Sender(transport, permission=fence.check)
            yield heard, fence, lambda request: sender.send(Call(verb=CALLS[request.method], what="a/x"), request)


def lost_at(ask: int) -> Callable[[], None]:
    """A guard that lets the first asks pass and finds the leadership lost from the one numbered `ask` on."""
    asked = iter(range(1, 1000))

    def guard() -> None:
        if next(asked) >= ask:
            raise LeadershipLost("frozen for too long")

    return guard


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.method)
async def test_a_write_is_refused_before_and_after_its_connection_opens(
    listener: tuple[Listener, Fence, Send], write: Request
) -> None:
    server, fence, send = listener
    with pytest.raises(LeadershipLost, match="does not lead"):
        await send(write)
    fence.open(lost_at(1))
    with pytest.raises(LeadershipLost):
        await send(write)
    assert server.connections == 0
    fence.open(lost_at(2))
    with pytest.raises(LeadershipLost, match="frozen for too long"):
        await send(write)
    async with asyncio.timeout(10):
        await server.left.wait()
    assert server.connections == 1, "it was the connection that came too late"
    assert server.heard == b""


@pytest.mark.parametrize("write", [*WRITES, GET], ids=lambda write: write.method)
async def test_a_leader_writes_and_a_standby_may_read(listener: tuple[Listener, Fence, Send], write: Request) -> None:
    server, fence, send = listener
    if write is not GET:
        fence.open(lambda: None)
    assert (await send(write)).status == 200
    assert server.heard.startswith(f"{write.method} {write.path} HTTP/1.1".encode())
    assert server.heard.endswith(write.body)


async def test_it_tells_whether_this_process_leads() -> None:
    leadership = Leadership()
    assert not leadership.is_valid(), "no Lease was acquired"
    leadership.deadline = elapsed() + 3600
    assert leadership.is_valid()
    leadership.deadline = elapsed()
    assert not leadership.is_valid()
