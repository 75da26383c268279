"""How often something is read anew that cannot be watched for long."""

from __future__ import annotations

import asyncio

import pytest

from controller.kube.errors import Forbidden, Gone
from kubectl_plugin.cluster.watches import ReadAgain, State, Watched, WatchSet, read_with_patience
from tests.beds.virtual_time import now, virtual_time


class Forgetful(Watched):
    """Each watch ends at once because its place is forgotten, until it has been read `times` times."""

    state = State.CURRENT

    def __init__(self, times: int) -> None:
        self.reads: list[float] = []
        self._times = times

    async def refresh(self) -> State:
        self.reads.append(now())
        return State.OVER if len(self.reads) >= self._times else State.CURRENT

    async def watch(self) -> State:
        await asyncio.sleep(0)
        raise Gone("watch", "pods", "too old", status=410)


@virtual_time
async def test_the_pauses_double_from_one_second_to_half_a_minute() -> None:
    watched = Forgetful(8)
    await WatchSet().keep(watched)
    assert watched.reads == [1, 3, 7, 15, 31, 61, 91, 121]


class Reading:
    """What is read again, and when it was read; the first `refusals` times it is refused."""

    def __init__(self, refusals: int = 0, *, dispensable: bool = False) -> None:
        self.times: list[float] = []
        self.kept = ReadAgain(self._read, every=60.0, bunch=5.0, dispensable=dispensable)
        self._refusals = refusals

    async def _read(self) -> None:
        self.times.append(now())
        if len(self.times) <= self._refusals:
            raise Forbidden("list", "nodes", "not you", status=403)


@virtual_time
async def test_of_many_failures_in_a_row_only_the_first_is_reported() -> None:
    reading, reported = Reading(refusals=3), list[str]()
    await read_with_patience(reading.kept.refresh, reported.append, lambda _: True)
    assert (len(reading.times), len(reported)) == (4, 1)


@virtual_time
async def test_what_is_read_again_is_so_after_a_bunch_of_doubts_and_now_and_then() -> None:
    reading, watches = Reading(), WatchSet()
    async with watches.keeping(reading.kept):
        await asyncio.sleep(10.0)
        for _ in range(3):
            reading.kept.mark_stale()
            await asyncio.sleep(1.0)
        await asyncio.sleep(100.0)
    assert reading.times == [0, 15, 75]


@virtual_time
async def test_what_can_be_done_without_is_tried_on_though_it_is_refused() -> None:
    reading, watches = Reading(8, dispensable=True), WatchSet()
    async with watches.keeping(reading.kept):
        await asyncio.sleep(120.0)
        assert "not you" in watches.interruption
        await asyncio.sleep(10.0)
        assert watches.interruption == ""
    assert reading.times == [0, 1, 3, 7, 15, 31, 61, 91, 121]


@virtual_time
async def test_a_needed_read_refused_for_half_a_minute_ends_all() -> None:
    reading = Reading(8)
    with pytest.raises(Forbidden, match="not you"):
        async with WatchSet().keeping(reading.kept):
            await asyncio.sleep(120.0)
    assert reading.times == [0, 1, 3, 7, 15, 31]
