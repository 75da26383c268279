"""How long a request may take when its credentials come late. No server is asked."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from aiohttp import ClientSession, ClientTimeout

from controller.kube.connection import Connection, Fixed
from controller.kube.request import NotConnected, Request
from controller.kube.transport import AiohttpTransport
from tests.beds.virtual_time import virtual_time


class Late(Fixed):
    """Has a token only after so many seconds, as an exec plugin that asks a person."""

    def __init__(self, seconds: float) -> None:
        super().__init__("Bearer t0ken")
        self._seconds = seconds

    async def authorization(self) -> str | None:
        await asyncio.sleep(self._seconds)
        return await super().authorization()


class BrokenSession:
    """A session whose requests all break at once; keeps their timeouts."""

    def __init__(self) -> None:
        self.timeouts: list[float | None] = []

    async def request(self, method: str, url: object, *, timeout: ClientTimeout, **_: object) -> None:
        self.timeouts.append(timeout.total)
        raise ConnectionResetError("broken")


async def exchanged(session: BrokenSession, seconds: float, timeout: float | None) -> float:
    """How long a request takes whose credentials take `seconds`."""
    loop = asyncio.get_running_loop()
    connection = Connection(server="http://nowhere", credentials=Late(seconds))
    transport, began = AiohttpTransport(cast("ClientSession", session), connection, "test"), loop.time()
    with pytest.raises(ConnectionError) as raised:
        await transport.exchange(Request(method="POST", path="/api/v1/pods", timeout=timeout))
    assert isinstance(raised.value, NotConnected) is (timeout is not None and seconds > timeout)
    return loop.time() - began


@virtual_time
async def test_slow_credentials_are_waited_for_no_longer_than_the_request() -> None:
    session = BrokenSession()
    assert await exchanged(session, seconds=60.0, timeout=5.0) == 5.0
    assert session.timeouts == [], "so that the write may be repeated"


@virtual_time
async def test_the_wait_for_credentials_is_part_of_the_request() -> None:
    session = BrokenSession()
    assert await exchanged(session, seconds=4.0, timeout=30.0) == 4.0
    assert await exchanged(session, seconds=4.0, timeout=None) == 4.0
    assert session.timeouts == [26.0, None]
