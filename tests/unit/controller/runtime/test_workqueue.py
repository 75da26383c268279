"""The work queue: which key comes next, when, and to whom."""

from __future__ import annotations

import asyncio

import pytest

from controller.runtime.workqueue import MAX_REASONS, QueueShutDown, WorkQueue
from tests.beds.stores import taken_from
from tests.beds.virtual_time import now, virtual_time_from


async def next_key(queue: WorkQueue[str]) -> str:
    async with taken_from(queue) as taken:
        return taken.key


@virtual_time_from(1000.0)
async def test_keys_come_out_in_the_order_they_became_dirty_and_once_each() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in ("a", "b", "a", "c", "b"):
        queue.add(key)
    assert (queue.depth, queue.adds) == (3, 3)
    assert [await next_key(queue) for _ in range(3)] == ["a", "b", "c"]
    assert queue.depth == 0


@virtual_time_from(1000.0)
async def test_the_first_few_different_reasons_travel_with_the_key() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for reason in ("spec", "pod", "spec", "", *(f"node-{n}" for n in range(9))):
        queue.add("a", reason)
    async with taken_from(queue) as taken:
        assert taken.reasons == ("spec", "pod", "node-0", "node-1")
        assert len(taken.reasons) == MAX_REASONS
        queue.add("a", "again")
    async with taken_from(queue) as taken:
        assert taken.reasons == ("again",)


@virtual_time_from(1000.0)
async def test_of_two_delays_the_earlier_wins() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 5.0, "late")
    queue.add_after("a", 2.0, "early")
    queue.add_after("a", 9.0, "later")
    assert len(queue._timers) == 1
    async with taken_from(queue) as taken:
        assert (now(), taken.reasons) == (1002.0, ("early",))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(next_key(queue), 60)


@virtual_time_from(1000.0)
async def test_retries_wait_longer_each_time_until_the_key_is_forgotten() -> None:
    queue: WorkQueue[str] = WorkQueue()

    async def wait_of(key: str, at_least: float = 0.0) -> float:
        began = now()
        queue.add_rate_limited(key, at_least)
        await next_key(queue)
        return round(now() - began, 4)

    waits = [await wait_of("a") for _ in range(20)]
    assert waits[:4] == [0.005, 0.01, 0.02, 0.04]
    assert waits[-1] == 1000.0, "the longest"
    assert await wait_of("b") == 0.005, "keys do not share their failures"
    queue.forget("a")
    assert await wait_of("a", at_least=7.0) == 7.0
    assert await wait_of("a") == 0.01
    assert queue.retries == 23


@virtual_time_from(1000.0)
async def test_queued_seconds_count_from_being_ready() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 5.0)
    queue.add("b")
    await asyncio.sleep(8)
    async with taken_from(queue) as first, taken_from(queue) as second:
        assert (first.key, first.queued_seconds) == ("b", 8.0)
        assert (second.key, second.queued_seconds) == ("a", 3.0)
        queue.add("a")
        await asyncio.sleep(1)
        assert queue.processing_seconds() == (1.0, 1.0)
    async with taken_from(queue) as again:
        assert (again.key, again.queued_seconds) == ("a", 0.0), "it was not ready while in a hand"


@virtual_time_from(1000.0)
async def test_close_sends_the_waiting_away_and_lets_the_taken_finish() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    async with taken_from(queue) as taken:
        waiting = asyncio.ensure_future(next_key(queue))
        await asyncio.sleep(0)
        queue.add_after("b", 1.0)
        (timer,) = queue._timers.values()
        queue.shut_down()
        assert timer.cancelled()
        queue.add("a")
        queue.add_after("c", 1.0)
        with pytest.raises(QueueShutDown):
            await waiting
        assert taken.key == "a"
    with pytest.raises(QueueShutDown):
        await next_key(queue)
    assert (queue.depth, len(queue._timers), queue.processing_seconds()) == (0, 0, ())


@virtual_time_from(1000.0)
async def test_far_delays_that_a_nearer_one_replaced_do_not_pile_up() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("other", 500.0)
    for _ in range(5_000):
        queue.add_after("a", 900.0)
        queue.add_after("a", 0.05)
        async with taken_from(queue) as taken:
            assert taken.key == "a"
    queue.add_after("a", 900.0, "far")
    assert len(queue._timers) == 2
    assert len(queue._timers) == 2
    assert await next_key(queue) == "other"
    before = now()
    async with taken_from(queue) as taken:
        assert (taken.key, taken.reasons) == ("a", ("far",))
    assert 600 < now() - before < 700
