"""Who of several candidates leads, and who takes over when, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from controller.runtime.lease_rules import LeaseSpec
from tests.beds.virtual_time import now, virtual_time_from
from tests.unit.controller.runtime.candidates import Candidate, leading, lease_board
from tests.unit.controller.runtime.lease_board import Board


async def standing_by(
    group: asyncio.TaskGroup, board: Board, name: str = "b", *, may_watch: bool = True
) -> Candidate:
    candidate = Candidate(board, name, may_watch=may_watch)
    group.create_task(candidate.run())
    await asyncio.sleep(1)
    assert candidate.leads_since is None
    return candidate


@virtual_time_from(1000.0)
async def test_the_first_candidate_creates_the_lease_after_a_while() -> None:
    async with lease_board() as (group, board):
        began = now()
        a = await leading(group, board)
        await asyncio.sleep(3.9)
        assert [w.holder for w in board.written] == ["a"] * len(board.written)
        assert [round(w.at - began) for w in board.written] == [5, 7, 9, 11, 13, 15, 17, 19]
        assert len({w.spec.acquire_time for w in board.written}) == 1
        assert [one.partition(";")[0] for one in a.said] == [
            "standing by, there is no leader lease",
            "created the leader lease",
            "a leads",
        ]
        assert a.leads_since is not None
        assert round(a.leads_since - began) == 15


@virtual_time_from(1000.0)
async def test_without_a_lease_nobody_leads_before_a_deleted_one_has_ended() -> None:
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
async def test_without_the_right_to_watch_a_released_lease_is_taken_in_3_s() -> None:
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
async def test_a_lease_deleted_after_its_holders_death_is_made_when_run_out() -> None:
    async with lease_board() as (group, board):
        a, b = await leading(group, board), await standing_by(group, board)
        a.seat.fault = "hang"
        board.put(None)
        deleted = now()
        await asyncio.sleep(30)
        assert b.leads_since is not None
        assert 15.0 <= b.leads_since - deleted < 18.0


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
        assert a.said == ["cannot reach the leader lease, retrying: reset by peer"]
        a.seat.fault = ""
        await asyncio.sleep(19)
        assert a.leads_since is not None
