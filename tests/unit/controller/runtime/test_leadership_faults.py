"""What ends a leadership, what does not, and how the Lease is left behind."""

from __future__ import annotations

import asyncio

import pytest

from controller.runtime.lease_rules import LeadershipLost, LeaseSpec
from tests.beds.virtual_time import VirtualLoop, now, virtual_time_from
from tests.unit.controller.runtime.candidates import Candidate, leading, lease_board
from tests.unit.controller.runtime.lease_board import Fault


@pytest.mark.parametrize("fault", ["503", "reset", "hang"])
@virtual_time_from(1000.0)
async def test_a_fault_shorter_than_the_deadline_costs_nothing(fault: Fault) -> None:
    async with lease_board() as (group, board):
        a = await leading(group, board)
        a.seat.fault = fault
        await asyncio.sleep(7)
        a.seat.fault = ""
        await asyncio.sleep(30)
        assert a.ended == ""
        assert len([line for line in a.said if "fails" in line]) == 1
        assert a.said[-1] == "a leads"


@pytest.mark.parametrize("fault", ["503", "reset", "hang"])
@virtual_time_from(1000.0)
async def test_leadership_ends_ten_seconds_after_the_last_renewal(fault: Fault) -> None:
    async with lease_board() as (group, board):
        a = await leading(group, board)
        await asyncio.sleep(10)
        last = board.written[-1].at
        a.seat.fault = fault
        await asyncio.sleep(30)
        assert a.ended.startswith("the lease was not renewed for 10 s")
        assert 9.9 <= a.ended_at - last <= 10.0
        assert max(at for _, at in a.seat.calls) <= last + 10.0, "an un-led process does not touch the lease"


@virtual_time_from(1000.0)
async def test_an_answer_that_got_lost_is_no_loss() -> None:
    async with lease_board() as (group, board):
        a = Candidate(board, "a")
        a.seat.fault = "answer lost"
        group.create_task(a.run())
        await asyncio.sleep(8)
        assert board.holder == "a"
        a.seat.fault = ""
        await asyncio.sleep(9)
        assert a.leads_since is not None
        a.seat.fault = "answer lost"
        await asyncio.sleep(3)
        a.seat.fault = ""
        await asyncio.sleep(30)
        assert a.ended == ""


@virtual_time_from(1000.0)
async def test_another_holder_ends_leadership_at_the_next_renewal() -> None:
    async with lease_board() as (group, board):
        a = await leading(group, board)
        board.put(LeaseSpec(holder_identity="usurper", lease_duration_seconds=15))
        await asyncio.sleep(2.1)
        assert a.ended == "usurper holds the lease now"
        assert board.holder == "usurper", "what is not ours is not released"


@virtual_time_from(1000.0)
async def test_a_conflict_by_somebody_who_only_annotates_is_overcome() -> None:
    async with lease_board() as (group, board):
        a = await leading(group, board)
        for _ in range(20):
            board.touch()
            await asyncio.sleep(1.9)
        assert a.ended == ""


@virtual_time_from(1000.0)
async def test_the_lease_is_released_also_after_a_conflict() -> None:
    async with lease_board() as (group, board):
        a = await leading(group, board)
        board.touch()
        a.leave.set()
        await asyncio.sleep(1)
        assert (a.ended, board.holder) == ("left", "")


@pytest.mark.parametrize("fault", ["503", "reset", "hang"])
@virtual_time_from(1000.0)
async def test_a_release_that_fails_ends_in_bounded_time(fault: Fault) -> None:
    async with lease_board() as (group, board):
        a = await leading(group, board)
        a.seat.fault = fault
        left = now()
        a.leave.set()
        await asyncio.sleep(5)
        assert a.ended == "left"
        assert a.ended_at - left <= 2.0
        assert "not released" in a.said[-1]


@virtual_time_from(1000.0)
async def test_a_frozen_leader_finds_its_deadline_passed_and_writes_nothing() -> None:
    async with lease_board() as (group, board):
        a = await leading(group, board)
        assert a.leadership is not None
        assert a.leadership.is_valid()
        calls = len(a.seat.calls)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.freeze(60.0)
        assert not a.leadership.is_valid(), "asked in the first moment after waking up"
        with pytest.raises(LeadershipLost):
            a.leadership.require()
        await asyncio.sleep(0.1)
        assert a.ended.startswith("the lease was not renewed for 10 s")
        assert len(a.seat.calls) == calls, "neither renewed nor released"


@virtual_time_from(1000.0)
async def test_an_error_of_the_block_releases_the_lease() -> None:
    async with lease_board() as (_, board):
        a = Candidate(board, "a")

        async def fail() -> None:
            async with a.scope():
                raise ValueError("a bug")

        with pytest.raises(ExceptionGroup) as caught:
            await fail()
        assert caught.group_contains(ValueError)
        assert board.holder == ""


@virtual_time_from(1000.0)
async def test_a_cancelled_block_releases_the_lease() -> None:
    async with lease_board() as (group, board):
        a = Candidate(board, "a")
        task = group.create_task(a.run())
        await asyncio.sleep(16)
        task.cancel()
        await asyncio.sleep(1)
        assert board.holder == ""


@pytest.mark.parametrize("seconds", [0.015, 0.025], ids=["on its way", "done, and not answered"])
@virtual_time_from(1000.0)
async def test_who_ends_while_it_takes_the_lease_gives_it_back(seconds: float) -> None:
    async with lease_board() as (group, board):
        board.put(LeaseSpec(holder_identity="", lease_duration_seconds=1))
        a = Candidate(board, "a")
        task = group.create_task(a.run())
        await asyncio.sleep(seconds)
        task.cancel()
        await asyncio.sleep(1)
        assert (a.leads_since, board.holder) == (None, "")
        assert [verb for verb, _ in a.seat.calls][:2] == ["get", "update"]


@virtual_time_from(1000.0)
async def test_a_candidate_that_ends_before_it_leads_leaves_its_lease() -> None:
    """The holder of one that was deleted may still write, and whoever took this one would lead at once."""
    async with lease_board() as (group, board):
        a = Candidate(board, "a")
        task = group.create_task(a.run())
        await asyncio.sleep(8)
        assert (a.leads_since, board.holder) == (None, "a")
        task.cancel()
        await asyncio.sleep(1)
        assert board.holder == "a"
