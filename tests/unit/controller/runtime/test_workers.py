"""What workers make of the end of a pass, how long a pass waits for answers, and how workers leave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest

from controller.runtime.leader_election import LeadershipLost
from controller.runtime.workers import (
    SILENCE_SECONDS,
    AnswerTimer,
    Done,
    Outcome,
    Pass,
    Requeue,
    RequeueAfter,
    Retry,
    workers,
)
from controller.runtime.workqueue import WorkItem, WorkQueue
from tests.beds.virtual_time import now, virtual_time_from, virtually


class Diary:
    """Handles keys by script, and remembers when."""

    def __init__(self, *script: Outcome | Exception, busy: float = 0.0) -> None:
        """A pass lasts for `busy` seconds."""
        self.script, self.busy = list(script), busy
        self.begun: list[tuple[str, float]] = []
        self.passes: list[Pass[str]] = []
        self.cancelled = 0

    async def handle(self, taken: WorkItem[str], requeue: Requeue) -> Outcome:
        self.begun.append((taken.key, round(now() - 1000.0, 3)))
        try:
            await asyncio.sleep(self.busy)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        step = self.script.pop(0) if self.script else Done()
        if isinstance(step, Exception):
            raise step
        return step

    def note(self, taken: WorkItem[str]) -> AbstractContextManager[Callable[[Pass[str]], None]]:
        return nullcontext(self.passes.append)


def run_for(seconds: float, diary: Diary, *keys: str, count: int = 1, drain: float = 20.0) -> float:
    """Returns when the workers were gone, in seconds after the start."""

    async def main() -> float:
        queue: WorkQueue[str] = WorkQueue()
        async with workers(count, queue, diary.handle, around=diary.note, drain=drain):
            for key in keys:
                queue.add(key)
            await asyncio.sleep(seconds)
        return now() - 1000.0

    return virtually(main())


def test_done_rests_and_come_back_comes_back() -> None:
    diary = Diary(RequeueAfter(2.0, "minReadySeconds"), Done())
    run_for(60, diary, "a")
    assert diary.begun == [("a", 0.0), ("a", 2.0)]
    assert diary.passes[1].item.reasons == ("minReadySeconds",)


def test_retry_waits_longer_each_time_and_success_forgets_it() -> None:
    sick = Retry(ValueError("quota"))
    diary = Diary(sick, sick, sick, RequeueAfter(1.0), sick, Retry(ValueError("busy"), at_least=3.0))
    run_for(60, diary, "a")
    assert [at for _, at in diary.begun] == [0.0, 0.005, 0.015, 0.035, 1.035, 1.04, 4.04]


def test_other_work_does_not_wait_for_the_retry() -> None:
    diary = Diary(Retry(ValueError("busy"), at_least=30.0, at_most=2.0))
    run_for(60, diary, "a")
    assert diary.begun == [("a", 0.0), ("a", 2.0)]


def test_a_handler_that_raises_is_reported_and_retried_and_the_others_go_on() -> None:
    diary = Diary(KeyError("bug"))
    run_for(60, diary, "sick", "well")
    assert [key for key, _ in diary.begun] == ["sick", "well", "sick"]
    crashed = diary.passes[0]
    assert crashed.crashed
    assert isinstance(crashed.outcome, Retry)
    assert isinstance(crashed.outcome.error, KeyError)
    assert not any(later.crashed for later in diary.passes[1:])


def test_keys_are_processed_side_by_side_and_no_key_twice_at_once() -> None:
    diary = Diary(busy=10.0)
    run_for(25, diary, *"abcdea")
    assert diary.begun == [(key, 0.0) for key in "abcde"]


def test_leaving_in_peace_lets_passes_finish_and_begins_no_other() -> None:
    diary = Diary(RequeueAfter(1.0), busy=10.0)
    gone = run_for(5, diary, "a", "a")
    assert diary.begun == [("a", 0.0)]
    assert len(diary.passes) == 1
    assert gone == 10.0


def test_a_key_that_takes_too_long_is_cancelled_after_the_drain_time() -> None:
    diary = Diary(busy=1000.0)
    gone = run_for(5, diary, "a", "b", count=2)
    assert (diary.cancelled, gone) == (2, 25.0)


LOST = LeadershipLost("fenced")


@pytest.mark.parametrize(
    ("found", "left_by", "ends", "cancelled"),
    [
        (None, LOST, 1005.0, 1),
        (None, asyncio.CancelledError(), 1005.0, 1),
        (LOST, None, 1000.0, 0),
        (ExceptionGroup("writes", [ValueError("x"), LOST]), None, 1000.0, 0),
    ],
    ids=["the block raises", "the block is cancelled", "a pass finds it lost", "one of its writes does"],
)
def test_lost_leadership_and_cancellation_end_everything_at_once(
    found: Exception | None, left_by: BaseException | None, ends: float, cancelled: int
) -> None:
    diary = Diary(found, busy=0.0) if found else Diary(busy=1000.0)

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        async with workers(2, queue, diary.handle, around=diary.note, drain=20.0):
            await asyncio.sleep(5 if left_by else 1000)
            raise left_by or AssertionError

    async def scope() -> float:
        with pytest.raises((ExceptionGroup, asyncio.CancelledError)) as caught:
            await main()
        lost = isinstance(caught.value, ExceptionGroup) and caught.group_contains(LeadershipLost, depth=None)
        assert lost is not isinstance(left_by, asyncio.CancelledError)
        return now()

    assert virtually(scope()) == ends
    assert (diary.cancelled, diary.passes) == (cancelled, [])


async def passes_over_a_key(*seconds: float) -> list[tuple[float, float]]:
    """When each pass over a key began and ended: the first of them waits for `seconds` for each answer."""
    passes: list[tuple[float, float]] = []
    first = iter([seconds])

    async def handle(taken: WorkItem[str], requeue: Requeue) -> Outcome:
        began, waits = now(), next(first, ())
        try:
            with AnswerTimer(requeue) as answers:
                for wait in waits:
                    await asyncio.sleep(wait)
                    answers.came()
        finally:
            passes.append((began, round(now(), 3)))
        return Done()

    queue: WorkQueue[str] = WorkQueue()
    async with workers(1, queue, handle, around=lambda taken: nullcontext(lambda done: None), drain=0.0):
        queue.add("key")
        await asyncio.sleep(60)
    return passes


@virtual_time_from(0.0)
async def test_a_pass_keeps_its_key_while_answers_come() -> None:
    assert await passes_over_a_key(1.9, 1.9, 1.9) == [(0.0, 5.7)]


@virtual_time_from(0.0)
async def test_a_pass_without_answers_is_joined_by_others() -> None:
    """At once, and then at each answer."""
    late = await passes_over_a_key(10.0, 0.5)
    assert late == [(SILENCE_SECONDS, SILENCE_SECONDS), (10.0, 10.0), (0.0, 10.5), (10.5, 10.5)]


@virtual_time_from(0.0)
async def test_a_pass_that_gave_its_key_back_resets_no_retry_delay_of_later_ones() -> None:
    begun: list[float] = []

    async def handle(taken: WorkItem[str], requeue: Requeue) -> Outcome:
        begun.append(round(now(), 3))
        if len(begun) == 1:
            requeue("not answered yet")
            await asyncio.sleep(0.1)
            return Done()
        return Retry(ValueError("quota"))

    queue: WorkQueue[str] = WorkQueue()
    async with workers(1, queue, handle, around=lambda taken: nullcontext(lambda done: None), drain=0.0):
        queue.add("key")
        await asyncio.sleep(0.5)
    assert begun == [0.0, 0.0, 0.005, 0.015, 0.035, 0.075, 0.155, 0.315]


async def test_a_key_that_is_done_late_stays_with_the_pass_that_took_it_since() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("key")
    first = await queue.get()
    queue.done(first)
    queue.add("key")
    second = await queue.get()
    queue.add("key")
    queue.done(first)
    assert queue.depth == 0
    queue.done(second)
    assert queue.depth == 1
