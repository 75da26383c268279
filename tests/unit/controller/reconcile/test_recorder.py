"""Events: what is said, what is not said twice, and that good news never drowns a warning."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import msgspec
import pytest
from msgspec.structs import replace

from controller.api.objects import JSONObject
from controller.kube.client import Client
from controller.kube.requests import Request, Response, Stream
from controller.kube.sender import Sender
from controller.planner.actions import Note
from controller.reconcile.events import (
    AGAIN_SECONDS,
    BURST,
    FEWEST_ALLOWANCES,
    FLUSH_SECONDS,
    MOST_RECENT,
    MOST_WAITING,
    MOST_WARNINGS,
    REFILL_SECONDS,
    SAME_WARNING_SECONDS,
    Recorder,
    ServerWarnings,
)
from tests.beds.virtual_time import clock, virtual_time
from tests.beds.worlds import ds


class Wire:
    """Keeps the events that are sent, and takes so many seconds for each."""

    def __init__(self, seconds: float = 0.0, *, status: int = 201) -> None:
        self.events: list[JSONObject] = []
        self.dropped = 0
        self._seconds, self._status = seconds, status

    async def exchange(self, request: Request) -> Response:
        await asyncio.sleep(self._seconds)
        self.events.append(msgspec.json.decode(request.body))
        return Response(status=self._status, body=b"{}")

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        raise NotImplementedError

    def drop(self) -> None:
        self.dropped += 1

    def recorder(self) -> Recorder:
        return Recorder(Client(Sender(self)), clock, "me", self.drop)

    @asynccontextmanager
    async def sending(self) -> AsyncIterator[Recorder]:
        recorder = self.recorder()
        async with recorder.sending():
            yield recorder

    def reasons(self) -> list[str]:
        return [str(event["reason"]) for event in self.events]


def created(number: int) -> Note:
    return Note(warning=False, reason="SuccessfulCreate", message=f"Created pod: demo-{number}")


REFUSED = Note(warning=True, reason="TemplateRefused", message="hostPort: too large")


@virtual_time
async def test_an_event_is_about_its_object_and_in_its_namespace() -> None:
    wire = Wire()
    async with wire.sending() as recorder:
        recorder(replace(ds(), namespace="agents"), replace(REFUSED, warning=False, once=True), kind="ImagePullJob")
        recorder(replace(ds(), namespace="agents"), replace(REFUSED, warning=False, once=True), kind="ImagePullJob")
    (event,) = wire.events
    about = msgspec.convert(event["involvedObject"], dict[str, str])
    assert (about["kind"], about["namespace"], about["uid"]) == ("ImagePullJob", "agents", ds().uid)
    assert event["type"] == "Normal"
    assert msgspec.convert(event["metadata"], dict[str, str])["namespace"] == "agents"


def test_a_warning_of_the_server_is_an_event_once_an_hour() -> None:
    warnings = ServerWarnings()
    first = warnings.note("demo", "would violate PodSecurity: pod demo-bcdfghjk", 0.0)
    assert first == Note(warning=True, reason="ServerWarning", message="would violate PodSecurity: pod demo-…")
    assert warnings.note("demo", "would violate PodSecurity: pod demo-kjhgfdcb", AGAIN_SECONDS - 1) is None
    assert warnings.note("demo", "would violate PodSecurity: pod demo-kjhgfdcb", AGAIN_SECONDS) == first
    told = [warnings.note("demo", f"warning {number}", AGAIN_SECONDS) for number in range(9)]
    assert sum(one is not None for one in told) == MOST_WARNINGS - 1


@virtual_time
async def test_a_flood_of_good_news_of_pods_is_cut_and_drowns_nothing_else() -> None:
    wire = Wire()
    async with wire.sending() as recorder:
        recorder(ds(), created(0))
        await asyncio.sleep(7 * 86400)  # a quiet week earns no more than one burst
        for number in range(3 * BURST):
            recorder(ds(), created(number))
        recorder(ds(), REFUSED)
        recorder(ds(), Note(warning=False, reason="RolloutComplete", message="done", of_rollout=True))
    assert wire.reasons() == ["SuccessfulCreate"] * (1 + BURST) + ["TemplateRefused", "RolloutComplete"]


@virtual_time
async def test_the_same_warning_is_said_again_only_after_ten_minutes() -> None:
    wire = Wire()
    async with wire.sending() as recorder:
        recorder(ds(), REFUSED)
        recorder(ds(), REFUSED)
        await asyncio.sleep(SAME_WARNING_SECONDS + 1)
        recorder(ds(), REFUSED)
    assert wire.reasons() == ["TemplateRefused"] * 2


@virtual_time
async def test_a_warning_that_was_not_sent_is_counted_and_may_be_said_later() -> None:
    wire = Wire()
    async with wire.sending() as recorder:
        for number in range(BURST):
            recorder(ds(), Note(warning=True, reason="FailedCreate", message=f"no {number}"))
        recorder(ds(), REFUSED)
        assert wire.dropped == 1
        await asyncio.sleep(301)
        recorder(ds(), REFUSED)
    assert wire.reasons()[-1] == "TemplateRefused"


@pytest.mark.parametrize(
    ("seconds", "sent", "dropped"), [(1.0, 3, 0), (FLUSH_SECONDS + 1.0, 0, 3)], ids=["in time", "too late"]
)
@virtual_time
async def test_events_that_are_on_their_way_at_the_end_have_a_while_left(
    seconds: float, sent: int, dropped: int
) -> None:
    wire = Wire(seconds)
    async with wire.sending() as recorder:
        for number in range(3):
            recorder(ds(), created(number))
        await asyncio.sleep(0.5)
    assert (len(wire.events), wire.dropped) == (sent, dropped)


@virtual_time
async def test_a_timeout_of_the_block_is_not_taken_for_that_of_the_last_events() -> None:
    with pytest.RaisesGroup(TimeoutError):
        async with Wire().recorder().sending():
            raise TimeoutError


@virtual_time
async def test_an_event_that_the_server_refuses_is_counted() -> None:
    wire = Wire(status=403)
    async with wire.sending() as recorder:
        recorder(ds(), created(1))
        recorder(ds(), created(2))
    assert (len(wire.events), wire.dropped) == (2, 2), "and the next one is sent"


@virtual_time
async def test_of_events_that_pile_up_the_oldest_are_dropped_and_counted() -> None:
    wire = Wire()
    recorder = wire.recorder()
    for number in range(MOST_WAITING + 3):  # none is sent yet
        recorder(replace(ds(), uid=f"uid-{number}"), created(number))
    async with recorder.sending():
        pass
    assert (len(wire.events), wire.dropped) == (MOST_WAITING, 3)
    assert wire.events[0]["message"] == "Created pod: demo-3"


@virtual_time
async def test_of_warnings_that_were_said_only_so_many_are_remembered() -> None:
    recorder = Wire().recorder()
    for number in range(MOST_RECENT):
        recorder(replace(ds(), uid=f"uid-{number}"), REFUSED)
    await asyncio.sleep(SAME_WARNING_SECONDS / 2)
    recorder(replace(ds(), uid="uid-of-one-more"), REFUSED)
    assert len(recorder._recent) == 1


@virtual_time
async def test_of_a_daemonset_that_is_gone_nothing_is_remembered() -> None:
    recorder = Wire().recorder()
    recorder(ds(), REFUSED)
    recorder(ds(), created(1))
    recorder.forget(ds().uid)
    assert (recorder._recent, recorder._allowances) == ({}, {})
    for number in range(1, FEWEST_ALLOWANCES):
        gone = replace(ds(), uid=f"uid-{number}")
        recorder.forget(gone.uid)
        recorder(gone, created(1))
    for _ in range(BURST + 1):
        recorder(ds(), created(1))
    await asyncio.sleep(REFILL_SECONDS)
    recorder(replace(ds(), uid="uid-of-one-more"), created(1))
    kept = [(ds().uid, False), ("uid-of-one-more", False)]
    assert list(recorder._allowances) == kept, "late events of a forgotten one are not counted for ever"


@virtual_time
async def test_a_message_is_no_longer_than_the_server_takes() -> None:
    wire = Wire()
    async with wire.sending() as recorder:
        recorder(ds(), Note(warning=True, reason="FailedCreate", message="x" * 5000))
    message = str(wire.events[0]["message"])
    assert len(message) == 1024
    assert message.endswith("x… (5,000 characters)")
