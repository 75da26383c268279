"""What a reflector says of a server that is away, refuses, or does not know the kind."""

from __future__ import annotations

import asyncio

import pytest

from controller.kube.request import NotConnected, Response
from tests.beds.scripted import Answer, Watch
from tests.beds.virtual_time import virtual_time_from
from tests.unit.controller.runtime.mirror import FULL, QUIET, REFUSED, mirrored, when


@virtual_time_from(1000.0)
async def test_the_server_is_said_to_be_away_once_and_back_once() -> None:
    down: list[Answer] = [NotConnected("refused")] * 4
    async with mirrored(Watch([*FULL, 2.0, ConnectionResetError("reset")]), *down, Watch([QUIET])) as (
        mirror,
        script,
    ):
        await when(lambda: len(script.requests) == 6, "too few requests")
        await asyncio.sleep(1)
        assert [contact.state for contact in mirror.contacts] == ["reachable", "unreachable", "reachable"]
        assert "refused" in mirror.contacts[1].reason


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([Watch([b"404 page not found"], status=404)], "missing"),
        ([Watch(status=403), Response(status=403)], "forbidden"),
        ([Watch(status=401)], "forbidden"),
        ([Watch(status=500)], "unreachable"),
        ([REFUSED, Response(status=503)], "unreachable"),
    ],
)
@virtual_time_from(1000.0)
async def test_why_there_is_no_list_is_said(answers: list[Answer], expected: str) -> None:
    async with mirrored(*answers) as (mirror, _):
        await asyncio.sleep(0.5)
        assert [contact.state for contact in mirror.contacts] == [expected]


@pytest.mark.parametrize(("custom", "left"), [(True, ""), (False, "ab")], ids=["custom", "built in"])
@virtual_time_from(1000.0)
async def test_with_a_kind_that_is_not_known_any_more_its_objects_are_gone(custom: bool, left: str) -> None:
    """A server always knows what is built in: who answers 404 for that is none."""
    gone = Watch([b"404 page not found"], status=404)
    async with mirrored(Watch([*FULL, 2.0]), gone, gone, gone, Watch([*FULL, QUIET]), custom=custom) as (
        mirror,
        script,
    ):
        await mirror.reflector.synced()
        await when(lambda: len(script.requests) == 4, "too few requests")
        assert mirror.names == left
        assert [change.key.name for change in mirror.changes if change.new is None] == ["a", "b"][: 2 * custom]
        await when(lambda: mirror.names == "ab", "it is installed again")


@virtual_time_from(1000.0)
async def test_a_kind_that_has_never_been_known_has_no_list_yet() -> None:
    async with mirrored(*[Watch(status=404)] * 3, Watch([*FULL, QUIET]), custom=True) as (mirror, script):
        await when(lambda: len(script.requests) == 3, "too few requests")
        assert not mirror.store.filled
