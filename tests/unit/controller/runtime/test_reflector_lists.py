"""Lists again: who asks for one, what it tells of what vanished, and that nobody sees half of it."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from controller.kube.request import NotConnected
from controller.runtime.reflector import CHANGE, TURN
from tests.beds.scripted import Watch
from tests.beds.things import bookmark, error_line, line, thing
from tests.beds.virtual_time import now, virtual_time_from
from tests.unit.controller.runtime.mirror import FULL, QUIET, asked, mirrored, when


@pytest.mark.parametrize("away", [Watch(status=503), Watch(status=404)], ids=["failing", "missing"])
@virtual_time_from(1000.0)
async def test_relist_wakes_a_reflector_that_waits_for_its_next_try(away: Watch) -> None:
    async with mirrored(*[away] * 7, Watch([*FULL, QUIET])) as (mirror, script):
        await when(lambda: len(script.requests) == 7, "too few requests")
        began = now()
        mirror.reflector.relist()
        await mirror.reflector.synced()
        assert now() - began < 0.1


@virtual_time_from(1000.0)
async def test_what_vanished_while_the_history_was_lost_is_told_as_deleted() -> None:
    second = [line("ADDED", thing("b", 4)), line("ADDED", thing("c", 15)), bookmark(20, end=True)]
    async with mirrored(Watch([*FULL, 5.0, error_line(410, "Expired")]), Watch([*second, QUIET])) as (mirror, script):
        await when(lambda: mirror.names == "bc", "the second list is not in the store")
        assert asked(script) == ["watchlist", "watchlist"]
        assert [(change.key.name, change.new is None) for change in mirror.changes[2:]] == [("a", True), ("c", False)]


@virtual_time_from(1000.0)
async def test_relist_breaks_off_the_stream_and_starts_over_at_once() -> None:
    async with mirrored(
        Watch([*FULL, QUIET]), Watch([line("ADDED", thing("a", 3)), bookmark(11, end=True), QUIET])
    ) as (mirror, script):
        await mirror.reflector.synced()
        began = now()
        mirror.reflector.relist()
        await when(lambda: mirror.names == "a", "the second list is not in the store")
        assert asked(script) == ["watchlist", "watchlist"]
        assert now() - began < 1


@virtual_time_from(1000.0)
async def test_relist_from_a_listener_is_not_lost_in_what_else_the_stream_brings() -> None:
    more = line("ADDED", thing("c", 11)) + line("MODIFIED", thing("a", 12))
    async with mirrored(
        Watch([*FULL, 1.0, more, QUIET]),
        Watch([*FULL[:2], line("ADDED", thing("d", 13)), bookmark(14, end=True), QUIET]),
    ) as (mirror, script):
        mirror.doubts_at = "c"
        await when(lambda: mirror.names == "abd", "the second list is not in the store", seconds=5)
        assert asked(script) == ["watchlist", "watchlist"]


@virtual_time_from(1000.0)
async def test_a_list_that_a_listener_doubts_is_not_waited_for() -> None:
    async with mirrored(Watch([*FULL, QUIET]), Watch([*FULL, QUIET])) as (mirror, script):
        mirror.doubts_at = "a"
        await mirror.reflector.synced()
        assert asked(script) == ["watchlist", "watchlist"]


@virtual_time_from(1000.0)
async def test_relist_while_the_server_is_away_takes_effect_when_it_is_back() -> None:
    async with mirrored(
        Watch([*FULL, ConnectionResetError("reset")]), NotConnected("refused"), Watch([*FULL, QUIET])
    ) as (mirror, script):
        await when(lambda: len(script.requests) == 2, "no second request")
        mirror.reflector.relist()
        await when(lambda: len(script.requests) == 3, "no third request")
        assert asked(script) == ["watchlist", "watch 10", "watchlist"]


@virtual_time_from(1000.0)
async def test_a_list_is_applied_in_slices_and_read_only_as_far_as_applied() -> None:
    many = [line("ADDED", thing(f"t{n}", 3)) for n in range(300)]
    async with mirrored(Watch([b"".join(many), bookmark(10, end=True), QUIET])) as (mirror, _):
        found = [0]
        while not mirror.store.filled:
            await asyncio.sleep(0)
            assert len(mirror.store) == len(mirror.changes), "found, and not told"
            assert mirror.store.is_whole is (len(mirror.store) in (0, 300))
            found.append(len(mirror.store))
        assert max(b - a for a, b in itertools.pairwise(found)) <= TURN / CHANGE, "too much for one turn"
        assert found[-1] == 300


@virtual_time_from(1000.0)
async def test_a_reader_of_the_whole_finds_the_list_as_on_the_server() -> None:
    many = [f"t{n}" for n in range(300)]
    async with mirrored(
        Watch([*(line("ADDED", thing(name, 3)) for name in many), bookmark(10, end=True), 5.0, error_line(410)]),
        Watch([*(line("ADDED", thing(name, 12)) for name in many), bookmark(12, end=True), QUIET]),
    ) as (mirror, script):
        await mirror.reflector.synced()
        looked = 0
        while len(script.requests) < 2 or not looked:
            await asyncio.sleep(0.05) if mirror.store.is_whole else await mirror.store.whole()
            versions = {thing.version for thing in mirror.store.values()}
            assert len(versions) == 1, "the old world and the new one at once"
            looked += versions == {"12"}


@virtual_time_from(1000.0)
async def test_relist_amid_the_telling_of_a_list_does_not_leave_half_of_it() -> None:
    many = [line("ADDED", thing(f"t{n}", 3)) for n in range(300)]
    async with mirrored(Watch([*many, bookmark(10, end=True), QUIET]), Watch([3.0, *FULL, QUIET])) as (
        mirror,
        script,
    ):
        mirror.doubts_at = "t150"
        while not mirror.changes:  # looks in every gap that there is
            await asyncio.sleep(0)
        await mirror.store.whole()
        assert (len(mirror.store), len(mirror.changes)) == (300, 300)
        await mirror.reflector.synced()
        assert asked(script) == ["watchlist", "watchlist"]
        assert mirror.names == "ab"
