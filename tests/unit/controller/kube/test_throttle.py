from __future__ import annotations

import asyncio

from controller.kube.throttle import Throttle
from tests.beds.virtual_time import now, virtually


async def worked(throttle: Throttle, seconds: float, *, busy: bool = False) -> float:
    """When the turn came."""
    await throttle.enter()
    came = now()
    await asyncio.sleep(seconds)
    throttle.leave(busy=busy)
    return came


async def crowd(throttle: Throttle, size: int, seconds: float = 10.0) -> list[float]:
    began = now()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(worked(throttle, seconds)) for _ in range(size)]
    return [task.result() - began for task in tasks]


def test_no_more_than_the_ceiling_are_in_flight_and_the_rest_wait_in_order() -> None:
    assert virtually(crowd(Throttle(ceiling=2), 5)) == [0, 0, 10, 10, 20]


def test_a_429_halves_the_places_and_a_burst_of_them_counts_once() -> None:
    async def main() -> None:
        throttle = Throttle(ceiling=8)
        async with asyncio.TaskGroup() as group:
            for _ in range(8):
                group.create_task(worked(throttle, 0.5, busy=True))
        assert throttle.places == 4
        await worked(throttle, 2.0, busy=True)
        assert throttle.places == 2

    virtually(main())


def test_places_never_fall_below_one_and_come_back_one_a_good_second() -> None:
    async def main() -> None:
        throttle = Throttle(ceiling=3)
        for _ in range(4):
            await worked(throttle, 2.0, busy=True)
        assert throttle.places == 1
        for expected in (2, 3, 3):
            await worked(throttle, 0.2)
            await worked(throttle, 0.9)
            assert throttle.places == expected

    virtually(main())


def test_a_bucket_lets_the_burst_through_and_then_its_rate() -> None:
    came = virtually(crowd(Throttle(qps=10, burst=3), 6, seconds=0.0))
    assert [round(moment, 6) for moment in came] == [0, 0, 0, 0.1, 0.2, 0.3]


def test_an_idle_bucket_fills_no_higher_than_the_burst() -> None:
    async def main() -> list[float]:
        throttle = Throttle(qps=10, burst=2)
        await crowd(throttle, 2, seconds=0.0)
        await asyncio.sleep(100)
        return await crowd(throttle, 3, seconds=0.0)

    assert [round(moment, 6) for moment in virtually(main())] == [0, 0, 0.1]


def test_whoever_is_cancelled_while_waiting_leaves_no_gap() -> None:
    async def main() -> list[float]:
        throttle = Throttle(ceiling=1)
        async with asyncio.TaskGroup() as group:
            group.create_task(worked(throttle, 5.0))
            await asyncio.sleep(0)
            waiting = group.create_task(worked(throttle, 5.0))
            await asyncio.sleep(1)
            waiting.cancel()
        assert throttle.in_flight == 0
        return await crowd(throttle, 2)

    assert virtually(main()) == [0, 10]


def test_whoever_is_cancelled_at_its_turn_passes_it_on() -> None:
    async def main() -> None:
        throttle = Throttle(ceiling=1)
        await throttle.enter()
        async with asyncio.TaskGroup() as group:
            first = group.create_task(worked(throttle, 5.0))
            second = group.create_task(worked(throttle, 5.0))
            await asyncio.sleep(0)
            throttle.leave()  # gives the turn to `first`, which …
            first.cancel()  # … is cancelled before it runs again
        assert first.cancelled()
        assert second.done()
        assert not second.cancelled()
        assert throttle.in_flight == 0

    virtually(main())
