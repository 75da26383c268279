"""Workers that take keys from the queue and make passes; one policy decides what happens to a key afterwards.

The common part of passes over DaemonSets and ImagePullJobs: how long they wait for answers, and how their errors
decide when the key comes back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from typing import Generic, Protocol, TypeAlias, TypeVar, assert_never

import msgspec

from controller.kube.errors import ApiError
from controller.runtime.lease import LeadershipLost
from controller.runtime.workqueue import QueueShutDown, WorkItem, WorkQueue

K = TypeVar("K", bound=Hashable)

DRAIN_SECONDS = 20.0
"""Seconds that running passes may still take after the block has ended, unless the caller says otherwise."""


class Done(msgspec.Struct, frozen=True):
    """Nothing more to do until a trigger comes."""


class ComeBack(msgspec.Struct, frozen=True):
    """The pass went well; come back in `after` seconds, because time alone will change the answer."""

    after: float
    reason: str = "timer"


class Retry(msgspec.Struct, frozen=True):
    """The pass failed: retry after the growing delay of the key, but not sooner than `at_least` seconds."""

    error: Exception
    at_least: float = 0.0
    at_most: float | None = None
    """Seconds after which something else is due, however long the delay has become; None: nothing is."""


Outcome: TypeAlias = Done | ComeBack | Retry


Work: TypeAlias = Callable[[], Coroutine[None, None, object]]
"""A coroutine function rather than a coroutine: if it is cancelled before its turn, nothing has begun."""


class PassControl(Protocol):
    """What a pass can ask of the workers that run it."""

    def only_waits(self) -> None:
        """From now on the pass only waits for answers and occupies no worker, however long they take. Its key counts
        as being processed until the pass ends."""

    def begin(self, work: Work) -> asyncio.Task[Exception | None]:
        """Begin work that may outlast the pass. The task never raises: its result is the exception of the work, or
        None. Only a lost leadership is raised, and ends everything."""

    def leave(self, task: asyncio.Task[Exception | None], tell: Callable[[Exception | None], None]) -> None:
        """The pass no longer waits for `task`, which it has begun. When the task ends, `tell` gets its result."""

    def wake(self, reason: str) -> None:
        """Add the key to the queue again: for work that outlasts the pass, once it has an answer."""


Handle: TypeAlias = Callable[[WorkItem[K], PassControl], Awaitable[Outcome]]
"""Makes one pass."""


class Pass(msgspec.Struct, Generic[K], frozen=True):
    """One finished pass over a key, for logs and metrics."""

    taken: WorkItem[K]
    outcome: Outcome
    work_seconds: float
    crashed: bool
    """The handler raised instead of returning an outcome: a bug of ours. The outcome is a `Retry` with that error."""


Around: TypeAlias = Callable[[WorkItem[K]], AbstractContextManager[Callable[[Pass[K]], None]]]
"""Opens the context of one pass, and yields the function that is called, inside that context, with the finished
pass."""


def settle(queue: WorkQueue[K], key: K, outcome: Outcome) -> None:
    """Settle `key` after a pass: forget its failures, come back in time, or retry with a growing delay."""
    match outcome:
        case Done():
            queue.forget(key)
        case ComeBack(after=after, reason=reason):
            queue.forget(key)
            queue.add_after(key, after, reason)
        case Retry(at_least=at_least, at_most=at_most):
            queue.retry(key, at_least)
            if at_most is not None:
                queue.add_after(key, at_most, "timer")
        case _:
            assert_never(outcome)


@asynccontextmanager
async def workers(
    count: int,
    queue: WorkQueue[K],
    handle: Handle[K],
    *,
    around: Around[K],
    drain: float = DRAIN_SECONDS,
    name: str = "worker",
) -> AsyncIterator[None]:
    """While the block runs, `count` workers process keys; their tasks are called `name`-0 and so on. When the block
    is left, the queue is closed.

    A pass that only waits for answers goes on beside the workers, so that waiting passes keep no other key waiting.
    The throttle bounds what they send (`controller.kube.sender`).

    If the block ends without an exception, running passes may take `drain` seconds more and are then cancelled. If it
    ends by an exception or is cancelled (leadership lost), they are cancelled at once.

    An exception from `handle` ends that pass but not the worker: it is the outcome of the pass, and the key is
    retried. `LeadershipLost` is different, because nobody may go on: it leaves the block inside an `ExceptionGroup`.
    So does an exception from `around`, which must not raise.
    """
    try:
        async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as group:
            pool = _Pool(group, queue, handle, around)
            for number in range(count):
                pool.start(f"{name}-{number}")
            yield
            queue.close()
            limit.reschedule(asyncio.get_running_loop().time() + drain)
    except TimeoutError:
        pass  # the drain is over: what still ran is cancelled. Any other error leaves the group as an ExceptionGroup
    finally:
        queue.close()


class _Pool(Generic[K]):
    """The workers, and the passes that go on beside them while they only wait for answers."""

    def __init__(
        self,
        group: asyncio.TaskGroup,
        queue: WorkQueue[K],
        handle: Handle[K],
        around: Around[K],
    ) -> None:
        self.group, self._queue, self._handle, self._around = group, queue, handle, around

    def start(self, name: str) -> None:
        self.group.create_task(self._work(name), name=name)

    async def _work(self, name: str) -> None:
        """Make pass after pass. When a pass only waits for answers, this task ends together with it, and a new worker
        of the same name takes over."""
        loop = asyncio.get_running_loop()
        relieved = False
        with suppress(QueueShutDown):
            while not relieved:
                async with self._queue.take() as taken:
                    control = _RunningPass(self, name, self._queue, taken.key)
                    with self._around(taken) as passed:
                        began, crashed = loop.time(), False
                        outcome: Outcome
                        try:
                            outcome = await self._handle(taken, control)
                        except Exception as error:  # a bug in one pass does not end the others
                            if _means_leadership_lost(error):
                                raise
                            outcome, crashed = Retry(error), True
                        settle(self._queue, taken.key, outcome)
                        passed(Pass(taken, outcome, loop.time() - began, crashed))
                relieved = control.relieved


class _RunningPass(Generic[K]):
    def __init__(self, pool: _Pool[K], worker: str, queue: WorkQueue[K], key: K) -> None:
        self._pool, self._worker, self._queue, self._key = pool, worker, queue, key
        self.relieved = False
        self._left: dict[asyncio.Task[Exception | None], Callable[[Exception | None], None]] = {}
        """Tasks that the pass no longer waits for, each with the callback for its result."""

    def only_waits(self) -> None:
        if self.relieved:
            return
        self.relieved = True
        if (task := asyncio.current_task()) is not None:
            task.set_name("pass")
        self._pool.start(self._worker)

    def begin(self, work: Work) -> asyncio.Task[Exception | None]:
        return self._pool.group.create_task(self._guarded(work), name="pass")

    async def _guarded(self, work: Work) -> Exception | None:
        raised: Exception | None = None
        try:
            await work()
        except Exception as error:  # whoever waits for the work gets it as a value
            if _means_leadership_lost(error):
                raise
            raised = error
        task = asyncio.current_task()
        if task is not None and (tell := self._left.pop(task, None)) is not None:
            tell(raised)
        return raised

    def leave(self, task: asyncio.Task[Exception | None], tell: Callable[[Exception | None], None]) -> None:
        self._left[task] = tell

    def wake(self, reason: str) -> None:
        self._queue.add(self._key, reason)


def _means_leadership_lost(error: Exception) -> bool:
    if isinstance(error, ExceptionGroup):
        return error.subgroup(LeadershipLost) is not None
    return isinstance(error, LeadershipLost)


AT_ONCE = 0.001
"""Seconds until the next pass over a key that has more to do: practically none, but the key queues behind those that
wait already."""
LOOK_AGAIN_SECONDS = 1.0
"""Seconds for which a stale pass waits for the event that makes it fresh; then it comes back by itself."""
ANSWER_SECONDS = 2.0
"""Seconds for which a pass waits for a server that says nothing. Then the pass ends without the missing answers, so
that the rest of the object is looked after: see docs/design/life-of-an-event.md#when-the-server-does-not-answer."""


async def patiently(control: PassControl, works: Sequence[Work], late: Callable[[Exception | None], None]) -> bool:
    """Run all `works` at once; returns whether all have ended within `ANSWER_SECONDS`. Raises what one of them has
    raised. When a work ends later, `late` gets what it raised, or None."""
    tasks = [control.begin(work) for work in works]
    if tasks:
        await asyncio.wait(tasks, timeout=ANSWER_SECONDS)
    unanswered = [task for task in tasks if not task.done()]
    for task in unanswered:  # before anything is raised: all late answers are heard
        control.leave(task, late)
    for task in tasks:
        if task.done() and (crash := task.result()) is not None:
            raise crash
    return not unanswered


def outcome(errors: Sequence[ApiError], due: float | None = None) -> Outcome:
    """The outcome of a pass: a retry if there was an error, with the first one as its reason. `due`: seconds after
    which something is to be done even without an event; None: nothing is."""
    if errors:
        return Retry(errors[0], errors[0].retry_after or 0.0, due)
    return Done() if due is None else ComeBack(due, "time passed")
