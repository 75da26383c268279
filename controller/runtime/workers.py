"""Workers take keys from the queue and make passes; the outcome of a pass decides what happens to its key.

A pass over a key is one task. It holds its key, so that no second pass over it begins, while the server answers. Once
the server is silent for `ANSWER_SECONDS`, the pass gives its key back and goes on waiting: the next pass over the
key looks after all that is not under way. A request that hangs delays nothing else, and no request outlasts the pass
that made it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from typing import Generic, TypeAlias, TypeVar, assert_never

import msgspec

from controller.kube.errors import ApiError
from controller.runtime.lease import LeadershipLost
from controller.runtime.workqueue import QueueShutDown, WorkItem, WorkQueue

K = TypeVar("K", bound=Hashable)

DRAIN_SECONDS = 20.0
"""Seconds that running passes may still take after the block has ended, unless the caller says otherwise."""
AT_ONCE = 0.001
"""Seconds until the next pass over a key that has more to do: practically none, but the key queues behind those that
wait already."""
STALE_RETRY_SECONDS = 1.0
"""Seconds for which a stale pass waits for the event that makes it fresh; then it comes back by itself."""
ANSWER_SECONDS = 2.0
"""Seconds for which a pass keeps its key while the server does not answer."""


class Done(msgspec.Struct, frozen=True):
    """Nothing more to do until a trigger comes."""


class RequeueAfter(msgspec.Struct, frozen=True):
    """The pass succeeded; the next one is due in `after` seconds, because time alone will change the answer."""

    after: float
    reason: str = "timer"


class Retry(msgspec.Struct, frozen=True):
    """The pass failed: retry after the growing delay of the key, but not sooner than `at_least` seconds."""

    error: Exception
    at_least: float = 0.0
    at_most: float | None = None
    """Seconds after which something else is due, however long the delay has become; None: nothing is."""


Outcome: TypeAlias = Done | RequeueAfter | Retry

Requeue: TypeAlias = Callable[[str], None]
"""Makes the key of a pass due at once, for a reason. From then on another pass over it may run beside this one."""

Handle: TypeAlias = Callable[[WorkItem[K], Requeue], Awaitable[Outcome]]
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


@asynccontextmanager
async def workers(
    count: int,
    queue: WorkQueue[K],
    handle: Handle[K],
    *,
    around: Around[K],
    drain: float = DRAIN_SECONDS,
    name: str = "worker",
) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Process keys while the block runs, and close the queue when it is left. Yields `count` tasks, called `name`-0
    and so on, which take keys and begin passes; any number of passes run at once, since each decides in one step and
    then waits. The throttle bounds what they send (`controller.kube.sender`).

    If the block ends without an exception, running passes may take `drain` seconds more and are then cancelled. If it
    ends by an exception or is cancelled (leadership lost), they are cancelled at once.

    An exception from `handle` is the outcome of its pass, and the key is retried. `LeadershipLost` leaves the block
    inside an `ExceptionGroup`. So does an exception from `around`, which must not raise.
    """
    try:
        async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as group:

            async def begin_passes() -> None:
                with suppress(QueueShutDown):
                    while True:
                        taken = await queue.get()
                        group.create_task(_one_pass(queue, taken, handle, around), name="pass")
                        await asyncio.sleep(0)  # one decision, then whatever else is due

            yield [group.create_task(begin_passes(), name=f"{name}-{number}") for number in range(count)]
            queue.shut_down()
            limit.reschedule(asyncio.get_running_loop().time() + drain)
    except TimeoutError:
        pass  # the drain is over: what still ran is cancelled. Any other error leaves the group as an ExceptionGroup
    finally:
        queue.shut_down()


async def _one_pass(queue: WorkQueue[K], taken: WorkItem[K], handle: Handle[K], around: Around[K]) -> None:
    loop = asyncio.get_running_loop()

    def requeue(reason: str) -> None:
        queue.add(taken.key, reason)
        queue.done(taken)

    try:
        with around(taken) as passed:
            began, crashed = loop.time(), False
            outcome: Outcome
            try:
                outcome = await handle(taken, requeue)
            except Exception as error:  # a bug in one pass does not end the others
                if _means_leadership_lost(error):
                    raise
                outcome, crashed = Retry(error), True
            settle(queue, taken.key, outcome)
            passed(Pass(taken, outcome, loop.time() - began, crashed))
    finally:
        queue.done(taken)


def settle(queue: WorkQueue[K], key: K, outcome: Outcome) -> None:
    """Settle `key` after a pass: forget its failures, come back in time, or retry with a growing delay."""
    match outcome:
        case Done():
            queue.forget(key)
        case RequeueAfter(after=after, reason=reason):
            queue.forget(key)
            queue.add_after(key, after, reason)
        case Retry(at_least=at_least, at_most=at_most):
            queue.add_rate_limited(key, at_least)
            if at_most is not None:
                queue.add_after(key, at_most, "timer")
        case _:
            assert_never(outcome)


def _means_leadership_lost(error: Exception) -> bool:
    if isinstance(error, ExceptionGroup):
        return error.subgroup(LeadershipLost) is not None
    return isinstance(error, LeadershipLost)


class Answers:
    """The answers that a pass waits for, in a `with` block. After `ANSWER_SECONDS` without one, `is_late` is set and
    the key is requeued; then once more for each answer."""

    def __init__(self, requeue: Requeue) -> None:
        self._requeue = requeue
        self._timer: asyncio.TimerHandle | None = None
        self.is_late = False

    def __enter__(self) -> Answers:
        self._timer = asyncio.get_running_loop().call_later(ANSWER_SECONDS, self._on_silence)
        return self

    def __exit__(self, *raised: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def came(self) -> None:
        """An answer came."""
        if self.is_late:
            self._requeue("answered at last")
        elif self._timer is not None:
            self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_later(ANSWER_SECONDS, self._on_silence)

    def _on_silence(self) -> None:
        self.is_late = True
        self._requeue("not answered yet")


def outcome(errors: Sequence[ApiError], due: float | None = None) -> Outcome:
    """The outcome of a pass: a retry if there was an error, with the first one as its reason. `due`: seconds after
    which something is to be done even without an event; None: nothing is."""
    if errors:
        return Retry(errors[0], errors[0].retry_after or 0.0, due)
    return Done() if due is None else RequeueAfter(due, "time passed")
