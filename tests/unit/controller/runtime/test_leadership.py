"""Candidates against one Lease, in virtual time, with faults."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from controller.runtime.election import Leadership
from controller.runtime.leader import LeadershipLost, LeaseSpec
from controller.runtime.leadership import leadership
from tests.beds.virtual_time import VirtualLoop, now, virtual_time_from
from tests.unit.controller.runtime.lease_board import Board, Fault, Seat

WALL_START = 1795255200.0


def wall() -> float:
    return WALL_START + now() - 1000.0


class Candidate:
    """One process: leads when it can, until it is told to leave, and says why it stopped."""

    def __init__(self, board: Board, name: str, *, may_watch: bool = True) -> None:
        self.name, self.seat = name, Seat(board, may_watch=may_watch)
        self.said: list[str] = []
        self.leads_since: float | None = None
        self.leadership: Leadership | None = None
        self.leave = asyncio.Event()
        self.ended: str = ""
        self.ended_at: float = 0.0

    def scope(self) -> AbstractAsyncContextManager[Leadership]:
        return leadership(self.seat, self.name, wall, say=self.said.append)

    async def run(self) -> None:
        try:
            async with self.scope() as self.leadership:
                self.leads_since = now()
                await self.leave.wait()
            self.ended = "left"
        except LeadershipLost as lost:
            self.ended = str(lost)
        finally:
            self.ended_at = now()


@asynccontextmanager
async def lease_board() -> AsyncIterator[tuple[asyncio.TaskGroup, Board]]:
    """A Lease, and a group for its candidates, which is cancelled at the end."""
    async with asyncio.TaskGroup() as group:
        yield group, Board()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()


async def leading(group: asyncio.TaskGroup, board: Board, name: str = "a") -> Candidate:
    candidate = Candidate(board, name)
    group.create_task(candidate.run())
    await asyncio.sleep(16)  # it has to make the lease, and nobody may hold a deleted one
    assert candidate.leads_since is not None
    return candidate


async def standing_by(
    group: asyncio.TaskGroup, board: Board, name: str = "b", *, may_watch: bool = True
) -> Candidate:
    candidate = Candidate(board, name, may_watch=may_watch)
    group.create_task(candidate.run())
    await asyncio.sleep(1)
    assert candidate.leads_since is None
    return candidate


@virtual_time_from(1000.0)
async def test_the_first_candidate_makes_the_lease_after_a_while_and_renews_it_every_two_seconds() -> None:
    async with lease_board() as (group, board):
        began = now()
        a = await leading(group, board)
        await asyncio.sleep(3.9)
        assert [w.holder for w in board.written] == ["a"] * len(board.written)
        assert [round(w.at - began) for w in board.written] == [5, 7, 9, 11, 13, 15, 17, 19]
        assert len({w.spec.acquire_time for w in board.written}) == 1
        assert [one.partition(";")[0] for one in a.said] == [
            "standing by, there is no leader lease",
            "made the leader lease",
            "a leads",
        ]
        assert a.leads_since is not None
        assert round(a.leads_since - began) == 15


@virtual_time_from(1000.0)
async def test_a_candidate_that_finds_no_lease_does_not_lead_before_the_holder_of_a_deleted_one_has_ended() -> None:
    """It has just started, or was blind: it has never seen the one that was there."""
    async with lease_board() as (group, board):
        a = await leading(group, board)
        await asyncio.sleep(0.1)  # it has just renewed
        a.seat.fault = "503"
        board.put(None)
        b = Candidate(board, "b")
        group.create_task(b.run())
        await asyncio.sleep(30)
        assert a.ended.startswith("the lease was not renewed for 10 s")
        assert b.leads_since is not None
        assert b.leads_since >= a.ended_at


@virtual_time_from(1000.0)
async def test_a_lease_that_is_deleted_before_its_maker_leads_begins_anew() -> None:
    async with lease_board() as (group, board):
        a = Candidate(board, "a")
        group.create_task(a.run())
        await asyncio.sleep(14)
        board.put(None)
        deleted = now()
        await asyncio.sleep(30)
        assert a.leads_since is not None
        assert a.leads_since - deleted >= 15.0


@virtual_time_from(1000.0)
async def test_a_released_lease_is_taken_at_once() -> None:
    async with lease_board() as (group, board):
        a, b = await leading(group, board), await standing_by(group, board)
        await asyncio.sleep(60)
        assert b.said == ["standing by, a leads"]
        a.leave.set()
        await asyncio.sleep(1)
        assert a.ended == "left"
        assert b.leads_since is not None
        assert b.leads_since - a.ended_at < 0.1
        release = next(w.spec for w in board.written if w.holder == "")
        assert (release.lease_duration_seconds, release.lease_transitions) == (1, 0)
        assert board.lease is not None
        assert board.lease.spec.lease_transitions == 1


@virtual_time_from(1000.0)
async def test_without_the_right_to_watch_a_released_lease_is_taken_within_three_seconds() -> None:
    async with lease_board() as (group, board):
        a, b = await leading(group, board), await standing_by(group, board, may_watch=False)
        await asyncio.sleep(60)
        assert b.said == ["standing by, a leads"], "asking in vain is no news"
        a.leave.set()
        await asyncio.sleep(3)
        assert b.leads_since is not None


@virtual_time_from(1000.0)
async def test_a_standby_hears_renewals_and_does_not_ask() -> None:
    async with lease_board() as (group, board):
        await leading(group, board)
        b = await standing_by(group, board)
        await asyncio.sleep(600)
        assert [verb for verb, _ in b.seat.calls] == ["get", "watch"]


@virtual_time_from(1000.0)
async def test_a_dead_leader_is_replaced_after_fifteen_seconds_of_silence() -> None:
    async with lease_board() as (group, board):
        a, b = await leading(group, board), await standing_by(group, board)
        await asyncio.sleep(20)
        last = board.written[-1].at
        a.seat.fault = "hang"
        await asyncio.sleep(30)
        assert b.leads_since is not None
        assert 15.0 <= b.leads_since - last < 15.5


@virtual_time_from(1000.0)
async def test_annotating_the_lease_does_not_keep_a_dead_leader_in_office() -> None:
    async with lease_board() as (group, board):
        a, b = await leading(group, board), await standing_by(group, board)
        a.seat.fault = "hang"
        for _ in range(20):
            board.touch()
            await asyncio.sleep(1)
        assert b.leads_since is not None


@pytest.mark.parametrize("skewed", ["1970-01-01T00:00:00.000000Z", "2099-01-01T00:00:00.000000Z"])
@virtual_time_from(1000.0)
async def test_the_other_clock_does_not_matter(skewed: str) -> None:
    async with lease_board() as (group, board):

        def renewal(count: int) -> LeaseSpec:
            return LeaseSpec(
                holder_identity="x", lease_duration_seconds=15, renew_time=skewed, lease_transitions=count
            )

        board.put(renewal(0))
        b = await standing_by(group, board)
        for count in range(1, 20):
            await asyncio.sleep(2)
            board.put(renewal(count))
        assert not b.said[1:], "no word of leading"
        last = now()
        await asyncio.sleep(20)
        assert b.leads_since is not None
        assert 15.0 <= b.leads_since - last < 15.5


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
async def test_a_deleted_lease_is_made_again() -> None:
    async with lease_board() as (group, board):
        a = await leading(group, board)
        board.put(None)
        await asyncio.sleep(5)
        assert (a.ended, board.holder) == ("", "a")


@pytest.mark.parametrize("may_watch", [True, False])
@virtual_time_from(1000.0)
async def test_a_lease_that_is_deleted_under_its_holder_is_left_to_them(may_watch: bool) -> None:
    async with lease_board() as (group, board):
        a, b = await leading(group, board), await standing_by(group, board, may_watch=may_watch)
        for _ in range(5):
            board.put(None)
            await asyncio.sleep(7.3)
        assert (a.ended, b.leads_since, board.holder) == ("", None, "a")


@virtual_time_from(1000.0)
async def test_a_lease_that_is_deleted_when_its_holder_is_dead_is_made_anew_once_it_would_have_run_out() -> None:
    async with lease_board() as (group, board):
        a, b = await leading(group, board), await standing_by(group, board)
        a.seat.fault = "hang"
        board.put(None)
        deleted = now()
        await asyncio.sleep(30)
        assert b.leads_since is not None
        assert 15.0 <= b.leads_since - deleted < 18.0


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
async def test_of_three_candidates_one_leads_and_each_takes_over_in_turn() -> None:
    async with lease_board() as (group, board):
        candidates = [Candidate(board, name) for name in "abc"]
        for candidate in candidates:
            group.create_task(candidate.run())
        await asyncio.sleep(16)
        for reigns in (1, 2, 3):
            await asyncio.sleep(5)
            (leader,) = (c for c in candidates if c.leads_since is not None and not c.ended)
            assert board.holder == leader.name
            assert board.lease is not None
            assert board.lease.spec.lease_transitions == reigns - 1
            leader.leave.set()


@virtual_time_from(1000.0)
async def test_no_server_at_the_start_is_said_once_and_waited_for() -> None:
    async with lease_board() as (group, board):
        a = Candidate(board, "a")
        a.seat.fault = "reset"
        group.create_task(a.run())
        await asyncio.sleep(60)
        assert a.said == ["cannot reach the leader lease, trying on: reset by peer"]
        a.seat.fault = ""
        await asyncio.sleep(19)
        assert a.leads_since is not None


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
