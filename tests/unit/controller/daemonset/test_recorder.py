"""Events: what is said, what is not said twice, and that good news never drowns a warning."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

import msgspec
import pytest
from msgspec.structs import replace

from controller.api.base import JSONObject
from controller.daemonset.recorder import (
    BURST,
    COUNTED_LEAST,
    FLUSH_SECONDS,
    REFILL_SECONDS,
    SAID_MOST,
    SAME_WORDS_SECONDS,
    WAITING_MOST,
    Recorder,
)
from controller.kube.client import Client
from controller.kube.request import Request, Response, Stream
from controller.kube.sender import Sender
from controller.planner.step import Note
from tests.beds.virtual_time import clock, virtual_time
from tests.beds.worlds import ds


class Wire:
    """Keeps the events that are sent."""

    def __init__(self) -> None:
        self.events: list[JSONObject] = []

    async def exchange(self, request: Request) -> Response:
        self.events.append(msgspec.json.decode(request.body))
        return Response(status=201, body=b"{}")

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        raise NotImplementedError

    def reasons(self) -> list[str]:
        return [str(event["reason"]) for event in self.events]


class SlowWire(Wire):
    """Each answer takes so many seconds."""

    def __init__(self, seconds: float = 1.0) -> None:
        super().__init__()
        self._seconds = seconds

    async def exchange(self, request: Request) -> Response:
        await asyncio.sleep(self._seconds)
        return await super().exchange(request)


def created(number: int) -> Note:
    return Note(warning=False, reason="SuccessfulCreate", message=f"Created pod: demo-{number}")


REFUSED = Note(warning=True, reason="TemplateRefused", message="hostPort: too large")


@virtual_time
async def test_a_flood_of_good_news_is_cut_and_a_warning_still_comes_through() -> None:
    wire = Wire()
    recorder = Recorder(Client(Sender(wire)), clock, "me")
    async with recorder.sending():
        for number in range(2 * BURST):
            recorder(ds(), created(number))
        recorder(ds(), REFUSED)
    assert wire.reasons() == ["SuccessfulCreate"] * BURST + ["TemplateRefused"]


@virtual_time
async def test_the_same_warning_is_said_again_only_after_ten_minutes() -> None:
    wire = Wire()
    recorder = Recorder(Client(Sender(wire)), clock, "me")
    async with recorder.sending():
        recorder(ds(), REFUSED)
        recorder(ds(), REFUSED)
        await asyncio.sleep(SAME_WORDS_SECONDS + 1)
        recorder(ds(), REFUSED)
    assert wire.reasons() == ["TemplateRefused"] * 2


@virtual_time
async def test_a_warning_that_was_not_sent_is_counted_and_may_be_said_later() -> None:
    wire, dropped = Wire(), []
    recorder = Recorder(Client(Sender(wire)), clock, "me", lambda: dropped.append(1))
    async with recorder.sending():
        for number in range(BURST):
            recorder(ds(), Note(warning=True, reason="FailedCreate", message=f"no {number}"))
        recorder(ds(), REFUSED)
        assert len(dropped) == 1
        await asyncio.sleep(301)
        recorder(ds(), REFUSED)
    assert wire.reasons()[-1] == "TemplateRefused"


@virtual_time
async def test_an_event_that_is_on_its_way_at_the_end_arrives() -> None:
    wire = SlowWire()
    recorder = Recorder(Client(Sender(wire)), clock, "me")
    async with recorder.sending():
        recorder(ds(), created(1))
        await asyncio.sleep(0.5)
    assert wire.reasons() == ["SuccessfulCreate"]


@virtual_time
async def test_what_does_not_get_through_in_time_at_the_end_is_counted() -> None:
    wire, dropped = SlowWire(FLUSH_SECONDS + 1.0), []
    recorder = Recorder(Client(Sender(wire)), clock, "me", lambda: dropped.append(1))
    async with recorder.sending():
        for number in range(3):
            recorder(ds(), created(number))
        await asyncio.sleep(0.5)
    assert (wire.reasons(), len(dropped)) == ([], 3)


@virtual_time
async def test_a_time_limit_of_the_block_is_not_taken_for_that_of_the_last_events() -> None:
    recorder = Recorder(Client(Sender(Wire())), clock, "me", lambda: None)
    with pytest.RaisesGroup(TimeoutError):
        async with recorder.sending():
            raise TimeoutError


@virtual_time
async def test_good_news_of_pods_never_drowns_what_becomes_of_the_rollout() -> None:
    wire = Wire()
    recorder = Recorder(Client(Sender(wire)), clock, "me")
    async with recorder.sending():
        for number in range(BURST + 1):
            recorder(ds(), created(number))
        recorder(ds(), Note(warning=False, reason="RolloutComplete", message="done", of_rollout=True))
    assert wire.reasons()[-1] == "RolloutComplete"


@virtual_time
async def test_a_quiet_week_earns_no_more_than_one_burst() -> None:
    wire = Wire()
    recorder = Recorder(Client(Sender(wire)), clock, "me")
    async with recorder.sending():
        recorder(ds(), created(0))
        await asyncio.sleep(7 * 86400)
        for number in range(3 * BURST):
            recorder(ds(), created(number))
    assert len(wire.events) == 1 + BURST


@virtual_time
async def test_an_event_that_the_server_refuses_is_counted_and_the_next_one_is_sent() -> None:
    class Refusing(Wire):
        async def exchange(self, request: Request) -> Response:
            await super().exchange(request)
            return Response(status=403)

    wire, dropped = Refusing(), []
    recorder = Recorder(Client(Sender(wire)), clock, "me", lambda: dropped.append(1))
    async with recorder.sending():
        recorder(ds(), created(1))
        recorder(ds(), created(2))
    assert (len(wire.events), len(dropped)) == (2, 2)


@virtual_time
async def test_of_events_that_pile_up_the_oldest_are_dropped_and_counted() -> None:
    wire, dropped = Wire(), []
    recorder = Recorder(Client(Sender(wire)), clock, "me", lambda: dropped.append(1))
    for number in range(WAITING_MOST + 3):  # nobody sends yet
        recorder(replace(ds(), uid=f"uid-{number}"), created(number))
    async with recorder.sending():
        pass
    assert (len(wire.events), len(dropped)) == (WAITING_MOST, 3)
    assert wire.events[0]["message"] == "Created pod: demo-3"


@virtual_time
async def test_of_warnings_that_were_said_only_so_many_are_remembered() -> None:
    recorder = Recorder(Client(Sender(Wire())), clock, "me")
    for number in range(SAID_MOST):
        recorder(replace(ds(), uid=f"uid-{number}"), REFUSED)
    await asyncio.sleep(SAME_WORDS_SECONDS / 2)
    recorder(replace(ds(), uid="uid-of-one-more"), REFUSED)
    assert len(recorder._said) == 1


@virtual_time
async def test_events_that_come_after_a_daemonset_was_forgotten_are_not_counted_for_ever() -> None:
    recorder = Recorder(Client(Sender(Wire())), clock, "me")
    for number in range(1, COUNTED_LEAST):
        gone = replace(ds(), uid=f"uid-{number}")
        recorder.forget(gone.uid)
        recorder(gone, created(1))
    for _ in range(BURST + 1):
        recorder(ds(), created(1))
    await asyncio.sleep(REFILL_SECONDS)
    recorder(replace(ds(), uid="uid-of-one-more"), created(1))
    assert list(recorder._allowances) == [(ds().uid, False), ("uid-of-one-more", False)]


@virtual_time
async def test_of_a_daemonset_that_is_gone_nothing_is_remembered() -> None:
    recorder = Recorder(Client(Sender(Wire())), clock, "me")
    recorder(ds(), REFUSED)
    recorder(ds(), created(1))
    recorder.forget(ds().uid)
    assert (recorder._said, recorder._allowances) == ({}, {})


@virtual_time
async def test_a_message_is_no_longer_than_the_server_takes() -> None:
    wire = Wire()
    recorder = Recorder(Client(Sender(wire)), clock, "me")
    async with recorder.sending():
        recorder(ds(), Note(warning=True, reason="FailedCreate", message="x" * 5000))
    message = str(wire.events[0]["message"])
    assert len(message) == 1024
    assert message.endswith("x… (5,000 characters)")
