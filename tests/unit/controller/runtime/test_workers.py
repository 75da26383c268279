"""What workers make of the end of a pass, how long a pass waits for answers, and how workers leave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import pytest

from controller.runtime.lease import LeadershipLost
from controller.runtime.workers import (
    ANSWER_SECONDS,
    ComeBack,
    Done,
    Outcome,
    Pass,
    PassControl,
    Retry,
    Work,
    patiently,
    workers,
)
from controller.runtime.workqueue import WorkItem, WorkQueue
from tests.beds.virtual_time import now, virtual_time_from, virtually


class Diary:
    """Handles keys by script, and remembers when."""

    def __init__(self, *script: Outcome | Exception, busy: float = 0.0, answers: float = 0.0) -> None:
        """A pass works for `busy` seconds and then only waits for answers, for `answers` seconds."""
        self.script, self.busy, self.answers = list(script), busy, answers
        self.begun: list[tuple[str, float]] = []
        self.passes: list[Pass[str]] = []
        self.cancelled = 0

    async def handle(self, taken: WorkItem[str], turn: PassControl) -> Outcome:
        self.begun.append((taken.key, round(now() - 1000.0, 3)))
        try:
            await asyncio.sleep(self.busy)
            if self.answers:
                turn.only_waits()
                turn.only_waits()  # nothing new
                await asyncio.sleep(self.answers)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        step = self.script.pop(0) if self.script else Done()
        if isinstance(step, Exception):
            raise step
        return step

    def note(self, taken: WorkItem[str]) -> AbstractContextManager[Callable[[Pass[str]], None]]:
        return nullcontext(self.passes.append)


def unobserved(taken: WorkItem[str]) -> AbstractContextManager[Callable[[Pass[str]], None]]:
    return nullcontext(lambda done: None)


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
    diary = Diary(ComeBack(2.0, "minReadySeconds"), Done())
    run_for(60, diary, "a")
    assert diary.begun == [("a", 0.0), ("a", 2.0)]
    assert diary.passes[1].taken.reasons == ("minReadySeconds",)


def test_retry_waits_longer_each_time_and_success_forgets_it() -> None:
    sick = Retry(ValueError("quota"))
    diary = Diary(sick, sick, sick, ComeBack(1.0), sick, Retry(ValueError("busy"), at_least=3.0))
    run_for(60, diary, "a")
    assert [at for _, at in diary.begun] == [0.0, 0.005, 0.015, 0.035, 1.035, 1.04, 4.04]


def test_a_handler_that_raises_is_told_and_retried_and_the_others_go_on() -> None:
    diary = Diary(KeyError("bug"))
    run_for(60, diary, "sick", "well")
    assert [key for key, _ in diary.begun] == ["sick", "well", "sick"]
    crashed = diary.passes[0]
    assert crashed.crashed
    assert isinstance(crashed.outcome, Retry)
    assert isinstance(crashed.outcome.error, KeyError)
    assert not any(later.crashed for later in diary.passes[1:])


def test_several_keys_at_once_but_never_one_key_twice() -> None:
    diary = Diary(busy=10.0)
    run_for(25, diary, "a", "b", "c", "a", count=2)
    assert diary.begun == [("a", 0.0), ("b", 0.0), ("c", 10.0)]


def test_a_pass_that_waits_for_answers_is_in_no_others_way() -> None:
    diary = Diary(busy=0.5, answers=100.0)
    run_for(99, diary, "a", "b", "c", "a")
    assert diary.begun == [("a", 0.0), ("b", 0.5), ("c", 1.0)]


def test_after_passes_that_only_waited_there_are_as_many_workers_as_before() -> None:
    diary = Diary(busy=1.0, answers=0.5)
    run_for(60, diary, *"abcdefg", count=2)
    assert [at for _, at in diary.begun] == [0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0]


def test_passes_that_only_wait_are_drained_like_the_others() -> None:
    diary = Diary(answers=10.0)
    gone = run_for(5, diary, "a", "b", "c")
    assert (gone, len(diary.passes), diary.cancelled) == (10.0, 3, 0)
    diary = Diary(answers=1000.0)
    gone = run_for(5, diary, "a", "b", "c")
    assert (gone, len(diary.passes), diary.cancelled) == (25.0, 0, 3)


def test_leaving_in_peace_lets_running_keys_finish_and_starts_no_other() -> None:
    diary = Diary(busy=10.0)
    gone = run_for(5, diary, "a", "b")
    assert diary.begun == [("a", 0.0)]
    assert len(diary.passes) == 1
    assert gone == 10.0


def test_a_key_that_takes_too_long_is_cancelled_after_the_drain_time() -> None:
    diary = Diary(busy=1000.0)
    gone = run_for(5, diary, "a", "b", count=2)
    assert (diary.cancelled, gone) == (2, 25.0)


@pytest.mark.parametrize("diary", [Diary(busy=1000.0), Diary(answers=1000.0)], ids=["at work", "waiting"])
def test_leaving_by_an_exception_cancels_at_once(diary: Diary) -> None:

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")

        async def scope() -> None:
            async with workers(1, queue, diary.handle, around=diary.note):
                await asyncio.sleep(5)
                raise LeadershipLost("the lease is somebody else's")

        with pytest.raises(ExceptionGroup) as caught:
            await scope()
        assert caught.group_contains(LeadershipLost)
        assert now() == 1005.0

    virtually(main())
    assert diary.cancelled == 1


def test_being_cancelled_from_outside_cancels_at_once() -> None:
    diary = Diary(busy=1000.0)

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")

        async def scope() -> None:
            async with workers(1, queue, diary.handle, around=diary.note):
                await asyncio.sleep(1000)

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(scope(), 5)
        assert now() == 1005.0

    virtually(main())
    assert diary.cancelled == 1


@pytest.mark.parametrize(
    "raised", [LeadershipLost("fenced"), ExceptionGroup("writes", [ValueError("x"), LeadershipLost("fenced")])]
)
def test_a_handler_that_finds_leadership_lost_ends_everything(raised: Exception) -> None:
    diary = Diary(raised)

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        with pytest.raises(ExceptionGroup) as caught:
            async with workers(2, queue, diary.handle, around=diary.note):
                await asyncio.sleep(1000)
        assert caught.group_contains(LeadershipLost, depth=None)
        assert now() == 1000.0

    virtually(main())
    assert diary.passes == []


class Begins:
    """A pass that begins work which outlasts it, and how that ends."""

    def __init__(self, seconds: float, raises: Exception | None = None) -> None:
        self.seconds, self.raises = seconds, raises
        self.passes, self.ended = 0, 0.0
        self.task: asyncio.Task[Exception | None] | None = None

    async def handle(self, taken: WorkItem[str], turn: PassControl) -> Outcome:
        self.passes += 1
        if self.task is None:
            self.task = turn.begin(lambda: self._work(turn))
        return Done()

    async def _work(self, turn: PassControl) -> None:
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.ended = now() - 1000.0
        turn.wake("answered at last")
        if self.raises is not None:
            raise self.raises

    def run(self, *, until: float, drain: float = 20.0) -> float:
        async def main() -> float:
            queue: WorkQueue[str] = WorkQueue()
            async with workers(1, queue, self.handle, around=unobserved, drain=drain):
                queue.add("a")
                await asyncio.sleep(until)
            return now() - 1000.0

        return virtually(main())


def test_work_that_outlasts_its_pass_wakes_the_key_again() -> None:
    begins = Begins(30.0)
    begins.run(until=60.0)
    assert (begins.passes, begins.ended) == (2, 30.0)


def test_such_work_is_waited_for_when_the_workers_end_but_not_for_ever() -> None:
    assert Begins(30.0).run(until=20.0) == 30.0
    begins = Begins(1000.0)
    assert begins.run(until=20.0, drain=5.0) == 25.0
    assert begins.ended == 25.0, "cancelled, not left running"


def test_a_mistake_in_such_work_is_its_result_and_ends_nobody_else() -> None:
    begins = Begins(1.0, KeyError("pod-1"))
    begins.run(until=60.0)
    assert begins.task is not None
    assert isinstance(begins.task.result(), KeyError)
    assert begins.passes == 2


@pytest.mark.parametrize("raises", [None, KeyError("pod-1")], ids=["well", "a mistake"])
def test_who_leaves_such_work_is_told_once_how_it_has_ended(raises: Exception | None) -> None:
    told: list[tuple[float, Exception | None]] = []

    async def work() -> None:
        await asyncio.sleep(30.0)
        if raises is not None:
            raise raises

    async def handle(taken: WorkItem[str], turn: PassControl) -> Outcome:
        turn.leave(turn.begin(work), lambda raised: told.append((now() - 1000.0, raised)))
        turn.begin(work)
        return Done()

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        async with workers(1, queue, handle, around=unobserved):
            queue.add("a")
            await asyncio.sleep(60.0)

    virtually(main())
    assert told == [(30.0, raises)]


def test_such_work_that_finds_leadership_lost_ends_everything() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        Begins(1.0, LeadershipLost("fenced")).run(until=60.0)
    assert caught.group_contains(LeadershipLost, depth=None)


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

    async def handle(taken: WorkItem[str], control: PassControl) -> Outcome:
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
