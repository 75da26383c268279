"""How long a reflector waits until it opens a stream again, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from controller.kube.request import NotConnected
from tests.beds.scripted import Answer, Watch, ok
from tests.beds.things import bookmark, error_line, line, page, thing
from tests.beds.virtual_time import now, virtual_time_from
from tests.unit.controller.runtime.mirror import FULL, QUIET, asked, mirrored, when


@virtual_time_from(1000.0)
async def test_a_stream_without_its_end_mark_is_given_up_after_30_seconds() -> None:
    async with mirrored(
        Watch([FULL[0], 20.0, FULL[1], QUIET]), ok(page(thing("b", 4), version=10)), Watch([QUIET])
    ) as (mirror, script):
        began = now()
        await mirror.reflector.synced()
        assert now() - began == pytest.approx(20 + 30, abs=1)
        assert asked(script)[:2] == ["watchlist", "list 500"]
        assert mirror.names == "b"


@virtual_time_from(1000.0)
async def test_a_stream_that_is_complete_may_be_silent_for_longer() -> None:
    async with mirrored(Watch([*FULL, 140.0, bookmark(11), QUIET])) as (_, script):
        await asyncio.sleep(120)
        assert asked(script) == ["watchlist"]


@virtual_time_from(1000.0)
async def test_a_stream_that_is_silent_for_too_long_is_opened_again_where_it_was() -> None:
    async with mirrored(Watch([*FULL, QUIET]), Watch([QUIET])) as (mirror, script):
        await asyncio.sleep(240)
        assert asked(script) == ["watchlist", "watch 10"], "the second one may be silent for as long as the first"
        assert [contact.state for contact in mirror.contacts] == ["reachable"]


@virtual_time_from(1000.0)
async def test_a_stream_that_the_server_closes_goes_on_at_once_from_its_version() -> None:
    async with mirrored(
        Watch([*FULL, 140.0, line("DELETED", thing("a", 11)), 140.0, bookmark(12), 120.0]),
        Watch([line("ADDED", thing("c", 13)), QUIET]),
    ) as (mirror, script):
        await asyncio.sleep(395)
        await when(lambda: mirror.names == "bc", "the second stream's changes are not in the store")
        assert asked(script) == ["watchlist", "watch 12"]
        assert script.times[1] - script.times[0] == pytest.approx(400, abs=1)


@virtual_time_from(1000.0)
async def test_why_each_stream_ended_is_told() -> None:
    async with mirrored(
        Watch([*FULL, 2.0]),
        Watch([2.0, bookmark(11), QUIET]),
        Watch([2.0, bookmark(12), error_line(410, "Expired")]),
        Watch([*FULL, QUIET]),
    ) as (mirror, _):
        await mirror.reflector.synced()
        assert mirror.restarts == []
        await when(lambda: len(mirror.restarts) == 3, f"the restarts are {mirror.restarts}")
        assert mirror.restarts == ["closed", "timeout", "gone"]
        assert mirror.heard >= 3


@virtual_time_from(1000.0)
async def test_streams_that_end_at_once_are_opened_less_and_less_often() -> None:
    async with mirrored(Watch(FULL), *[Watch([])] * 5, Watch([QUIET])) as (_, script):
        await when(lambda: len(script.requests) == 6, "too few requests")
        gaps = [b - a for a, b in zip(script.times[1:], script.times[2:], strict=False)]
        assert gaps == pytest.approx([0.8, 1.6, 3.2, 6.4], abs=0.1)


@virtual_time_from(1000.0)
async def test_errors_back_off_to_30_s_and_a_delivering_stream_resets_that() -> None:
    down: list[Answer] = [Watch(status=503)] * 8
    reset = ConnectionResetError("reset")
    async with mirrored(*down, Watch([*FULL, reset]), Watch([reset]), Watch([QUIET])) as (_, script):
        await when(lambda: len(script.requests) == 11, "too few requests", seconds=500)
        gaps = [round(b - a, 1) for a, b in zip(script.times, script.times[1:], strict=False)]
        assert gaps[:8] == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]
        assert gaps[8:] == [0.0, 0.8], "a stream that has delivered is opened again at once, and the row starts again"


@pytest.mark.parametrize("chance", [0.0, 1.0], ids=["least jitter", "most jitter"])
@pytest.mark.parametrize("cut", [[35.0, ConnectionResetError("cut")], [35.0]], ids=["cut off", "closed"])
@virtual_time_from(1000.0)
async def test_a_balancer_that_cuts_idle_streams_leaves_nearly_always_one(
    cut: list[float | OSError], chance: float
) -> None:
    streams = 40
    idle: list[Answer] = [Watch([*cut]) for _ in range(streams)]
    async with mirrored(Watch([*FULL, *cut]), *idle, Watch([QUIET]), chance=chance) as (_, script):
        await when(lambda: len(script.requests) == streams + 2, "too few requests", seconds=60.0 * streams, every=5.0)
        took = script.times[-1] - script.times[1]
        assert (took - 35.0 * streams) / took <= 0.03
        assert script.times[-1] - script.times[-2] <= 36.0, "the pauses grow"


@pytest.mark.parametrize("before", [[], [2.0]], ids=["at once", "after a while"])
@virtual_time_from(1000.0)
async def test_a_server_whose_versions_go_back_is_not_listed_all_the_time(
    before: list[float],
) -> None:
    backwards: list[Answer] = [Watch([*FULL, *before, bookmark(9)]) for _ in range(500)]
    async with mirrored(*backwards) as (mirror, script):
        await asyncio.sleep(60)
        assert 3 <= len(script.requests) <= 8
        assert set(mirror.restarts) == {"gone"}


@virtual_time_from(1000.0)
async def test_a_server_that_is_away_is_looked_for_every_second() -> None:
    down: list[Answer] = [NotConnected("refused")] * 7
    async with mirrored(Watch([*FULL, 2.0]), Watch([ConnectionResetError("reset")]), *down, Watch([QUIET])) as (
        _,
        script,
    ):
        await when(lambda: len(script.requests) == 10, "too few requests")
        gaps = [round(b - a, 1) for a, b in zip(script.times[1:], script.times[2:], strict=False)]
        assert gaps == [0.8, *[1.0] * 7], "a broken stream backs off, a refused connection does not"


@virtual_time_from(1000.0)
async def test_a_kind_that_is_not_installed_is_looked_for_every_two_seconds() -> None:
    async with mirrored(*[Watch([b"404 page not found"], status=404)] * 8, Watch([*FULL, QUIET])) as (mirror, script):
        await mirror.reflector.synced()
        gaps = [b - a for a, b in zip(script.times, script.times[1:], strict=False)]
        assert gaps == pytest.approx([2.0] * 8, abs=0.1)


@virtual_time_from(1000.0)
async def test_a_busy_server_is_left_alone_for_as_long_as_it_asks() -> None:
    async with mirrored(Watch(status=429, retry_after=7.0), Watch([*FULL, QUIET])) as (_, script):
        await when(lambda: len(script.requests) == 2, "no second request")
        assert script.times[1] - script.times[0] == pytest.approx(7.0, abs=0.1)
