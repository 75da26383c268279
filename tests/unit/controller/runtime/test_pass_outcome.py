"""How long a pass waits for answers, and what it leaves behind."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext

from controller.runtime.pass_outcome import ANSWER_SECONDS, patiently
from controller.runtime.workers import Done, Outcome, Pass, PassControl, Work, workers
from controller.runtime.workqueue import Taken, WorkQueue
from tests.beds.virtual_time import now, virtual_time_from

LONG = ANSWER_SECONDS + 8.0
BUG = RuntimeError("a bug")


async def slow() -> None:
    await asyncio.sleep(LONG)


async def quick() -> None:
    pass


async def slow_and_crashes() -> None:
    await slow()
    raise BUG


async def crashes() -> None:
    raise BUG


async def done_by(*works: Work) -> tuple[list[tuple[object, float]], list[tuple[Exception | None, float]]]:
    """What one pass returned or raised, and each late answer, with the time of each."""
    told: list[tuple[object, float]] = []
    late: list[tuple[Exception | None, float]] = []

    async def handle(taken: Taken[str], control: PassControl) -> Outcome:
        try:
            told.append((await patiently(control, works, lambda raised: late.append((raised, now()))), now()))
        except RuntimeError as error:
            told.append((error, now()))
        return Done()

    queue: WorkQueue[str] = WorkQueue()
    async with workers(1, queue, handle, around=lambda taken: nullcontext(_ignored)):
        queue.add("key")
        await asyncio.sleep(2 * LONG)
    return told, late


def _ignored(done: Pass[str]) -> None:
    pass


@virtual_time_from(0.0)
async def test_a_pass_waits_for_quick_answers_and_goes_on_without_slow_ones() -> None:
    assert await done_by() == ([(True, 0.0)], [])
    began = now()
    assert await done_by(quick, quick) == ([(True, began)], [])
    began = now()
    told, late = await done_by(quick, slow, slow_and_crashes)
    assert told == [(False, began + ANSWER_SECONDS)]
    assert late == [(None, began + LONG), (BUG, began + LONG)]


@virtual_time_from(0.0)
async def test_a_crash_is_raised_and_hides_no_answer_that_comes_later() -> None:
    both: Sequence[tuple[Work, ...]] = [(crashes, slow), (slow, crashes)]
    for works in both:
        began = now()
        assert await done_by(*works) == ([(BUG, began + ANSWER_SECONDS)], [(None, began + LONG)])
