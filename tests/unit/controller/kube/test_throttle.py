"""How many requests are in flight and how many begin in a second, and that a cancelled one takes no turn along."""

from __future__ import annotations

import asyncio

import pytest

from controller.kube.sender import RequestQueue, Throttle
from tests.beds.virtual_time import now, virtual_time_from, virtually


async def worked(queue: RequestQueue, seconds: float, *, busy: bool = False) -> float:
    """When the turn came."""
    await queue.acquire()
    came = now()
    await asyncio.sleep(seconds)
    queue.release(busy=busy)
    return came


async def crowd(queue: RequestQueue, size: int, seconds: float = 10.0) -> list[float]:
    began = now()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(worked(queue, seconds)) for _ in range(size)]
    return [task.result() - began for task in tasks]


def test_no_more_than_the_ceiling_are_in_flight_and_the_rest_wait_in_order() -> None:
    assert virtually(crowd(RequestQueue(Throttle(ceiling=2)), 5)) == [0, 0, 10, 10, 20]


@virtual_time_from(1000.0)
async def test_halves_the_permits_and_a_burst_of_them_counts_once() -> None:
    throttle = Throttle(ceiling=8)
    queue = RequestQueue(throttle)
    async with asyncio.TaskGroup() as group:
        for _ in range(8):
            group.create_task(worked(queue, 0.5, busy=True))
    assert throttle.permits == 4
    await worked(queue, 2.0, busy=True)
    assert throttle.permits == 2


@virtual_time_from(1000.0)
async def test_permits_never_fall_below_one_and_come_back_one_a_good_second() -> None:
    throttle = Throttle(ceiling=3)
    queue = RequestQueue(throttle)
    for _ in range(4):
        await worked(queue, 2.0, busy=True)
    assert throttle.permits == 1
    for expected in (2, 3, 3):
        await worked(queue, 0.2)
        await worked(queue, 0.9)
        assert throttle.permits == expected


@virtual_time_from(1000.0)
async def test_a_bucket_lets_the_burst_through_and_then_its_rate() -> None:
    queue = RequestQueue(Throttle(qps=10, burst=3))
    for _ in range(2):
        came = await crowd(queue, 6, seconds=0.0)
        assert [round(moment, 6) for moment in came] == [0, 0, 0, 0.1, 0.2, 0.3]
        await asyncio.sleep(100)  # an idle bucket fills no higher than the burst


def test_a_task_that_is_cancelled_while_waiting_leaves_no_gap() -> None:
    async def main() -> list[float]:
        throttle = Throttle(ceiling=1)
        queue = RequestQueue(throttle)
        async with asyncio.TaskGroup() as group:
            group.create_task(worked(queue, 5.0))
            await asyncio.sleep(0)
            waiting = group.create_task(worked(queue, 5.0))
            await asyncio.sleep(1)
            waiting.cancel()
        assert throttle.taken == 0
        return await crowd(queue, 2)

    assert virtually(main()) == [0, 10]


@pytest.mark.parametrize("reserved", [0, 1], ids=["a shared permit", "its own permit"])
@virtual_time_from(1000.0)
async def test_a_task_that_is_cancelled_at_its_turn_passes_it_on(reserved: int) -> None:
    throttle = Throttle(ceiling=1)
    queue = RequestQueue(throttle, reserved=reserved)
    if reserved:
        await RequestQueue(throttle).acquire()
    await queue.acquire()
    async with asyncio.TaskGroup() as group:
        first, second = (group.create_task(worked(queue, 5.0)) for _ in range(2))
        await asyncio.sleep(1)
        queue.release()  # gives the turn to `first`, which …
        first.cancel()  # … is cancelled before it runs again
    assert first.cancelled()
    assert (second.result(), throttle.taken) == (1001.0, reserved)
    assert (await crowd(queue, 2))[0] == 0


async def stuck(queue: RequestQueue, size: int, group: asyncio.TaskGroup) -> list[asyncio.Task[float]]:
    """So many requests without an answer."""
    tasks = [group.create_task(worked(queue, 1e6)) for _ in range(size)]
    await asyncio.sleep(1)
    return tasks


def test_a_lane_with_its_own_permit_waits_for_no_others() -> None:
    async def main() -> tuple[list[float], int]:
        throttle = Throttle(ceiling=5)
        async with asyncio.TaskGroup() as group:
            hanging = [task for _ in range(60) for task in await stuck(RequestQueue(throttle, reserved=1), 20, group)]
            came = await crowd(RequestQueue(throttle, reserved=1), 4, seconds=0.02)
            taken = throttle.taken
            for task in hanging:
                task.cancel()
        return came, taken

    came, taken = virtually(main())
    assert [round(moment, 6) for moment in came] == [0, 0.02, 0.04, 0.06]
    assert taken == 5


def test_a_permit_of_its_own_is_one_more_and_is_given_back() -> None:
    async def main() -> list[float]:
        throttle = Throttle(ceiling=2)
        queue = RequestQueue(throttle, reserved=1)
        first = await crowd(queue, 4)
        assert throttle.taken == 0
        return [*first, *await crowd(queue, 3)]

    assert virtually(main()) == [0, 0, 0, 10, 0, 0, 0]


def test_what_goes_beyond_that_is_shared_in_turns() -> None:
    """A queue with very many requests does not keep the one behind it waiting for all of them."""

    async def main() -> float:
        throttle = Throttle(ceiling=1)
        many, few = RequestQueue(throttle, reserved=1), RequestQueue(throttle, reserved=1)
        async with asyncio.TaskGroup() as group:
            group.create_task(worked(many, 1e6))
            for _ in range(50):
                group.create_task(worked(many, 10.0))
            group.create_task(worked(few, 1e6))
            await asyncio.sleep(1)
            began = now()
            came = await worked(few, 0.0)
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
        return came - began

    assert virtually(main()) <= 20.0
