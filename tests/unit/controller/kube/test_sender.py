"""What is waited for, what is tried again, and what is raised at once."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import msgspec
import pytest
from aiohttp import ClientSession, ClientTimeout

from controller.api.objects import Key, Ref
from controller.kube import errors
from controller.kube.client import Client
from controller.kube.connection import Connection, Credentials
from controller.kube.errors import ConfigError
from controller.kube.requests import NotConnected, Request, Response
from controller.kube.sender import Exchange, Sender, Throttle
from controller.kube.transport import AiohttpTransport
from tests.beds.sample_kind import THINGS, bookmark
from tests.beds.scripted import Script, Slow, Watch, ok
from tests.beds.virtual_time import now, virtual_time, virtual_time_from, virtually

REF = Ref(namespace="default", name="a", uid="u")
BUSY = Response(status=429, retry_after=3.0)


async def create(script: Script) -> float:
    """Seconds that a create took."""
    began = now()
    await Client(Sender(script)).create(THINGS, "default", b"{}")
    return now() - began


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_waited_for_as_long_as_it_asks(status: int) -> None:
    script = Script(Response(status=status, retry_after=3.0), Response(status=status, retry_after=2.0), ok())
    assert virtually(create(script)) == pytest.approx(5.0)


@virtual_time_from(1000.0)
async def test_a_server_that_stays_busy_is_given_up_within_the_calls_time() -> None:
    began = now()
    with pytest.raises(errors.TooManyRequests) as raised:
        await create(Script(*[BUSY] * 20))
    assert raised.value.retry_after == 3.0
    assert now() - began < 30


@virtual_time_from(1000.0)
async def test_the_time_spent_waiting_is_taken_from_the_next_try() -> None:
    began = now()
    with pytest.raises(errors.UnknownOutcome):
        await create(Script(Response(status=429, retry_after=20.0), Slow(60.0, ok())))
    assert now() - began == pytest.approx(30.0)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Response(status=503), errors.ServerError),
        (ConnectionResetError("reset"), errors.UnknownOutcome),
        (NotConnected("refused"), errors.Unreachable),
    ],
)
def test_a_create_is_sent_once_if_the_server_does_not_ask_for_more(
    answer: Response | OSError, expected: type[errors.ApiError]
) -> None:
    script = Script(answer)
    with pytest.raises(expected):
        virtually(create(script))
    assert len(script.requests) == 1


def test_is_tried_once_more_with_fresh_credentials() -> None:
    refreshed: list[str] = []

    async def refresh() -> None:
        refreshed.append("once")

    async def main(script: Script) -> None:
        await Client(Sender(script, refresh=refresh)).create(THINGS, "default", b"{}")

    virtually(main(Script(Response(status=401), ok())))
    assert refreshed == ["once"]
    with pytest.raises(errors.Unauthorized):
        virtually(main(Script(Response(status=401), Response(status=401))))
    assert refreshed == ["once", "once"]


@virtual_time_from(1000.0)
async def test_a_stream_that_is_not_authorized_renews_them_for_the_next() -> None:
    refreshed: list[str] = []

    async def refresh() -> None:
        refreshed.append("once")

    with pytest.raises(errors.Unauthorized):
        async with Client(Sender(Script(Watch(status=401)), refresh=refresh)).watch(THINGS):
            pass
    assert refreshed == ["once"]


@virtual_time_from(1000.0)
async def test_without_permission_no_write_is_sent_and_every_read_is() -> None:
    class NotLeading(Exception):
        pass

    def refuse() -> None:
        raise NotLeading

    script = Script(Response(status=404))
    client = Client(Sender(script, permission=refuse))
    with pytest.raises(NotLeading):
        await client.create(THINGS, "default", b"{}")
    with pytest.raises(errors.NotFound):
        await client.get(THINGS, REF)
    assert [request.method for request in script.requests] == ["GET"]


def test_credentials_that_cannot_be_renewed_are_named_in_the_error() -> None:
    async def refresh() -> None:
        raise ConfigError("context kind of config: the login has expired")

    async def main() -> None:
        await Client(Sender(Script(Response(status=401)), refresh=refresh)).get(THINGS, REF)

    with pytest.raises(errors.Unauthorized, match=r"get things\.example\.com default/a: .*the login has expired"):
        virtually(main())


def test_every_exchange_is_reported_also_the_ones_that_are_retried() -> None:
    seen: list[Exchange] = []

    async def main() -> None:
        client = Client(Sender(Script(BUSY, ok(), *[ConnectionResetError()] * 2), on_response=seen.append))
        await client.create(THINGS, "default", b"{}")
        with pytest.raises(errors.Unreachable):
            await client.get(THINGS, Key("default", "a"))
        with pytest.raises(errors.Unreachable):
            await client.watch(THINGS, "default").__aenter__()

    virtually(main())
    verbs = [("create", 429), ("create", 200), ("get", 0), ("watch", 0)]
    assert [(answer.call.verb, answer.status) for answer in seen] == verbs
    named = [answer.call.what.removeprefix("things.example.com ") for answer in seen]
    assert named == ["in default", "in default", "default/a", "in default"]


@virtual_time_from(1000.0)
async def test_only_a_busy_server_narrows_the_throttle_which_is_left_empty() -> None:
    throttle = Throttle(ceiling=8)
    client = Client(Sender(Script(Response(status=500), BUSY, ok()), throttle=throttle))
    with pytest.raises(errors.ServerError):
        await client.get(THINGS, REF)
    assert throttle.permits == 8
    await client.create(THINGS, "default", b"{}")
    assert throttle.permits == 5  # halved to 4, and one more after the good seconds that followed
    assert throttle.taken == 0


@virtual_time_from(1000.0)
async def test_a_call_that_gets_no_turn_in_time_is_refused_unsent() -> None:
    throttle = Throttle(qps=0.01, burst=1)
    script = Script(ok())
    client = Client(Sender(script, throttle=throttle))
    await client.create(THINGS, "default", b"{}")
    with pytest.raises(errors.TooManyRequests, match="no permit within 24 s"):
        await client.create(THINGS, "default", b"{}")
    assert len(script.requests) == 1
    assert throttle.taken == 0


@virtual_time_from(1000.0)
async def test_a_turn_that_would_leave_no_time_for_the_answer_is_none() -> None:
    script = Script(*[Slow(0.5, ok())] * 20)
    client = Client(Sender(script, throttle=Throttle(qps=2, burst=1), call_seconds=5.0))
    async with asyncio.TaskGroup() as group:
        calls = []
        for _ in range(20):
            calls.append(group.create_task(ended(client)))
            await asyncio.sleep(0.13)
    kinds = [call.result() for call in calls]
    assert {*kinds} == {type(None), errors.TooManyRequests}
    assert len(script.requests) == kinds.count(type(None)), "who gets no turn sends nothing"


async def ended(client: Client) -> type:
    """How a create ends: by this error, or by none."""
    try:
        await client.create(THINGS, "default", b"{}")
    except errors.ApiError as error:
        return type(error)
    return type(None)


@virtual_time_from(1000.0)
async def test_an_own_limit_bounds_exchanges_and_the_opening_of_streams() -> None:
    client = Client(Sender(Script(Slow(3.0, ok()), Slow(1.0, ok())), request_seconds=2.0))
    with pytest.raises(errors.Unreachable):
        await client.get(THINGS, REF)
    assert now() == pytest.approx(1002.0)
    await client.delete(THINGS, REF)
    opened = Watch([20.0, bookmark(1)])
    async with Client(Sender(Script(opened), request_seconds=2.0)).watch(THINGS) as events:
        assert len([event async for bunch in events for event in bunch]) == 1
    with pytest.raises(errors.Unreachable):
        async with Client(Sender(Unopened(), request_seconds=2.0)).watch(THINGS):
            pass


@virtual_time_from(1000.0)
async def test_no_limit_is_none_for_the_call_and_for_each_exchange() -> None:
    script = Script(Slow(1000.0, ok()))
    await Client(Sender(script, call_seconds=math.inf, request_seconds=math.inf)).delete(THINGS, REF)
    assert [request.timeout for request in script.requests] == [None]


class Unopened(Script):
    """Takes the request for a stream and never says a word."""

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Watch]:
        await asyncio.Event().wait()
        yield Watch()


class Late(Credentials):
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
async def test_the_wait_for_credentials_is_part_of_the_request() -> None:
    session = BrokenSession()
    assert await exchanged(session, seconds=60.0, timeout=5.0) == 5.0
    assert session.timeouts == [], "so that the write may be repeated"
    assert await exchanged(session, seconds=4.0, timeout=30.0) == 4.0
    assert await exchanged(session, seconds=4.0, timeout=None) == 4.0
    assert session.timeouts == [26.0, None]


async def test_warnings_of_writes_are_handed_on_each_once_in_an_answer() -> None:
    header = '299 - "a \\"b\\"", 299 - "a \\"b\\""'
    answer = msgspec.structs.replace(ok(), warning_headers=(header, '299 kube "c"'))
    seen: list[str] = []
    client = Client(Sender(Script(*[answer] * 4), on_warning=seen.append))
    await client.create(THINGS, "default", b"{}", dry_run=True)
    assert seen == ['a "b"', "c"]
    await client.get(THINGS, REF)
    assert len(seen) == 2
    other: list[str] = []
    await client.with_reserved_permit(other.append).delete(THINGS, REF)
    await client.with_reserved_permit().delete(THINGS, REF)
    assert (len(other), len(seen)) == (2, 4)


@pytest.mark.parametrize(
    ("header", "texts"),
    [
        ('299 - "deprecated"', ["deprecated"]),
        ('299 - "one", 299 - "two"', ["one", "two"]),
        ('299 agent "one" "Wed, 21 Oct 2015 07:28:00 GMT", 299 - "two, \\"three\\""', ["one", 'two, "three"']),
        ('299 - "one\\\\two"', ["one\\two"]),
        ('299 - ""', []),
        ('199 - "another code"', []),
        ("deprecated", []),
        ('299 - "open', []),
        ('299 - "a\udce4\tb"', ["a? b"]),
        ('299 - "' + '"' * 9, []),
    ],
)
def test_warnings_are_read_from_their_header(header: str, texts: list[str]) -> None:
    assert Response(status=200, warning_headers=(header,)).warnings() == texts
