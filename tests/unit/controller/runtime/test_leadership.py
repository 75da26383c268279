"""Which candidate leads, which takes over and when, what ends a leadership, and how the Lease is left."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from controller.runtime.leader_election import LeadershipLost, LeaseSpec
from tests.beds.virtual_time import VirtualLoop, now, virtual_time_from
from tests.unit.controller.runtime.lease_board import Board, Candidate, Fault, leading, lease_board


async def standing_by(group: asyncio.TaskGroup, board: Board, *, may_watch: bool = True) -> Candidate:
    candidate = Candidate(board, "b", may_watch=may_watch)
    group.create_task(candidate.run())
    await asyncio.sleep(1)
    assert candidate.leads_since is None
    return candidate


@virtual_time_from(1000.0)
async def test_the_first_candidate_makes_the_lease_and_renews_it() -> None:
    async with lease_board() as (group, board):
        began = now()
        a = await leading(group, board)
        await asyncio.sleep(3.9)
        assert [w.holder for w in board.written] == ["a"] * len(board.written)
        assert [round(w.at - began) for w in board.written] == [5, 7, 9, 11, 13, 15, 17, 19]
        assert len({w.spec.acquire_time for w in board.written}) == 1
        said = [one.partition(";")[0] for one in a.said]
        assert said == ["standing by, there is no leader lease", "created the leader lease", "a leads"]
        assert a.leads_since is not None
        assert round(a.leads_since - began) == 15


@pytest.mark.parametrize(("may_watch", "seconds"), [(True, 0.1), (False, 3.0)], ids=["watches", "may not watch"])
@virtual_time_from(1000.0)
async def test_a_released_lease_is_taken_at_once(may_watch: bool, seconds: float) -> None:
    async with lease_board() as (group, board):
        a, b = await leading(group, board), await standing_by(group, board, may_watch=may_watch)
        await asyncio.sleep(60)
        assert b.said == ["standing by, a leads"], "asking in vain is no news"
        a.leave.set()
        await asyncio.sleep(3)
        assert a.ended == "left"
        assert b.leads_since is not None
        assert b.leads_since - a.ended_at < seconds
        release = next(w.spec for w in board.written if w.holder == "")
        assert (release.lease_duration_seconds, release.lease_transitions) == (1, 0)
        assert board.lease is not None
        assert board.lease.spec.lease_transitions == 1


@virtual_time_from(1000.0)
async def test_a_standby_hears_renewals_and_does_not_ask() -> None:
    async with lease_board() as (group, board):
        await leading(group, board)
        b = await standing_by(group, board)
        await asyncio.sleep(600)
        assert [verb for verb, _ in b.seat.calls] == ["get", "watch"]


@pytest.mark.parametrize("annotated", [False, True], ids=["silence", "the lease is annotated meanwhile"])
@virtual_time_from(1000.0)
async def test_a_dead_leader_is_replaced_15_seconds_after_its_last_renewal(annotated: bool) -> None:
    async with lease_board() as (group, board):
        a, b = await leading(group, board), await standing_by(group, board)
        await asyncio.sleep(20)
        last = board.written[-1].at
        a.seat.fault = "hang"
        for _ in range(30):
            if annotated and b.leads_since is None:
                board.touch()
            await asyncio.sleep(1)
        assert b.leads_since is not None
        assert 15.0 <= b.leads_since - last < 15.5


@pytest.mark.parametrize("skewed", ["1970-01-01T00:00:00.000000Z", "2099-01-01T00:00:00.000000Z"])
@virtual_time_from(1000.0)
async def test_the_other_clock_does_not_matter(skewed: str) -> None:
    async with lease_board() as (group, board):
        renewal = LeaseSpec(holder_identity="x", lease_duration_seconds=15, renew_time=skewed, lease_transitions=0)
        board.put(renewal)
        b = await standing_by(group, board)
        for count in range(1, 20):
            await asyncio.sleep(2)
            board.put(replace(renewal, lease_transitions=count))
        assert not b.said[1:], "no word of leading"
        last = now()
        await asyncio.sleep(20)
        assert b.leads_since is not None
        assert 15.0 <= b.leads_since - last < 15.5


@pytest.mark.parametrize("may_watch", [True, False])
@virtual_time_from(1000.0)
async def test_a_lease_that_is_deleted_is_made_again_by_its_holder(may_watch: bool) -> None:
    async with lease_board() as (group, board):
        a, b = await leading(group, board), await standing_by(group, board, may_watch=may_watch)
        for _ in range(5):
            board.put(None)
            await asyncio.sleep(7.3)
        assert (a.ended, b.leads_since, board.holder) == ("", None, "a")


@virtual_time_from(1000.0)
async def test_the_deleted_lease_of_a_dead_holder_is_made_anew_after_its_end() -> None:
    async with lease_board() as (group, board):
        a, b = await leading(group, board), await standing_by(group, board)
        a.seat.fault = "hang"
        board.put(None)
        deleted = now()
        await asyncio.sleep(30)
        assert b.leads_since is not None
        assert 15.0 <= b.leads_since - deleted < 18.0


@virtual_time_from(1000.0)
async def test_no_server_at_the_start_is_said_once_and_waited_for() -> None:
    async with lease_board() as (group, board):
        a = Candidate(board, "a")
        a.seat.fault = "reset"
        group.create_task(a.run())
        await asyncio.sleep(60)
        assert a.said == ["cannot reach the leader lease, retrying: ConnectionResetError"]
        a.seat.fault = ""
        await asyncio.sleep(19)
        assert a.leads_since is not None


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
async def test_a_conflict_by_another_that_only_annotates_is_overcome() -> None:
    async with lease_board() as (group, board):
        a = await leading(group, board)
        for _ in range(20):
            board.touch()
            await asyncio.sleep(1.9)
        assert a.ended == ""
        board.touch()
        a.leave.set()
        await asyncio.sleep(1)
        assert (a.ended, board.holder) == ("left", ""), "the release, too"


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
        assert a.leadership.is_valid()
        calls = len(a.seat.calls)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.freeze(60.0)
        assert not a.leadership.is_valid(), "asked in the first moment after waking up"
        with pytest.raises(LeadershipLost):
            a.leadership.check()
        await asyncio.sleep(0.1)
        assert a.ended.startswith("the lease was not renewed for 10 s")
        assert len(a.seat.calls) == calls, "neither renewed nor released"


@virtual_time_from(1000.0)
async def test_a_block_that_raises_or_is_cancelled_releases_the_lease() -> None:
    async def fail(a: Candidate) -> None:
        async with a.scope():
            raise ValueError("a bug")

    async with lease_board() as (group, board):
        with pytest.RaisesGroup(ValueError):
            await fail(Candidate(board, "a"))
        assert board.holder == ""
        task = group.create_task(Candidate(board, "a").run())
        await asyncio.sleep(16)
        assert board.holder == "a"
        task.cancel()
        await asyncio.sleep(1)
        assert board.holder == ""


@pytest.mark.parametrize(
    ("released", "seconds", "holder"),
    [(True, 0.015, ""), (True, 0.025, ""), (False, 8.0, "a")],
    ids=["on its way", "done, and not answered", "the holder of a deleted Lease may still write"],
)
@virtual_time_from(1000.0)
async def test_a_candidate_that_ends_before_it_leads_gives_the_lease_back_if_it_may(
    released: bool, seconds: float, holder: str
) -> None:
    async with lease_board() as (group, board):
        if released:
            board.put(LeaseSpec(holder_identity="", lease_duration_seconds=1))
        a = Candidate(board, "a")
        task = group.create_task(a.run())
        await asyncio.sleep(seconds)
        task.cancel()
        await asyncio.sleep(1)
        assert (a.leads_since, board.holder) == (None, holder)
        assert released is ([verb for verb, _ in a.seat.calls][:2] == ["get", "update"])


@virtual_time_from(1000.0)
async def test_a_candidate_that_ends_takes_the_lease_from_no_other() -> None:
    async with lease_board() as (group, board):
        board.put(LeaseSpec(holder_identity="", lease_duration_seconds=1))
        task = group.create_task(Candidate(board, "a").run())
        await asyncio.sleep(0.015)  # its write is on its way
        board.put(LeaseSpec(holder_identity="b", lease_duration_seconds=15))
        task.cancel()
        await asyncio.sleep(1)
        assert board.holder == "b"
