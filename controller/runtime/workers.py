"""Runs passes over the keys of a queue, each as a task; its outcome decides when its key is due again. The contract:

- One decision per key at a time: a pass holds its key until it has decided, and then while the server answers.
- After `SILENCE_SECONDS` without an answer it returns the key and waits on, so several passes over one key may wait.
  A later one leaves alone what is under way; why: docs/design/decisions.md#writes.
- No write outlives its pass, and no pass the block of `workers`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from typing import Generic, TypeAlias, TypeVar, assert_never

import msgspec

from controller.kube.errors import ApiError
from controller.runtime.leader_election import LeadershipLost
from controller.runtime.workqueue import QueueShutDown, WorkItem, WorkQueue

K = TypeVar("K", bound=Hashable)

AT_ONCE = 0.001
"""Seconds until the next pass over a key with more to do: almost none, but after the keys already queued."""
STALE_RETRY_SECONDS = 1.0
"""Seconds after which a stale pass is repeated if the awaited event does not come."""
SILENCE_SECONDS = 2.0
"""Seconds without an answer after which a pass returns its key."""


TIME_PASSED = "time passed"


class Done(msgspec.Struct, frozen=True):
    """There is nothing to do until the next trigger."""


class RequeueAfter(msgspec.Struct, frozen=True):
    """The pass succeeded; the next is due in `after` seconds, because time alone will change the result."""

    after: float
    reason: str = TIME_PASSED
    """Anything but `TIME_PASSED` says why the pass decided nothing."""


class Retry(msgspec.Struct, frozen=True):
    """The pass failed: retry after the key's growing delay, but not before `at_least` seconds."""

    error: Exception
    at_least: float = 0.0
    at_most: float | None = None
    """Seconds after which other work is due regardless of the delay; None if there is none."""


Outcome: TypeAlias = Done | RequeueAfter | Retry

Requeue: TypeAlias = Callable[[str], None]
"""Returns the key of a pass and makes it due at once, for a reason."""

Handle: TypeAlias = Callable[[WorkItem[K], Requeue], Awaitable[Outcome]]


class Pass(msgspec.Struct, Generic[K], frozen=True):
    item: WorkItem[K]
    outcome: Outcome
    work_seconds: float
    crashed: bool
    """The handler raised, which is a bug. The outcome is a `Retry` with that error."""


Around: TypeAlias = Callable[[WorkItem[K]], AbstractContextManager[Callable[[Pass[K]], None]]]
"""Opens the context of one pass and yields the function to call, inside it, with the finished pass."""


@asynccontextmanager
async def workers(
    takers: int,
    queue: WorkQueue[K],
    handle: Handle[K],
    *,
    around: Around[K],
    drain: float,
    name: str = "worker",
) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Processes keys while the block runs, then closes the queue. Yields the tasks that take keys, named `name`-0 and
    so on. They begin any number of passes, whose requests the throttle limits. At the end of the block, running
    passes may take `drain` more seconds; after an exception or cancellation they are cancelled at once.

    An exception from `handle` makes its key retry. `LeadershipLost`, and any exception from `around`, which must not
    raise, leaves the block in an `ExceptionGroup`."""
    try:
        async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as group:

            async def begin_passes() -> None:
                with suppress(QueueShutDown):
                    while True:
                        item = await queue.get()
                        group.create_task(_one_pass(queue, item, handle, around), name="pass")
                        await asyncio.sleep(0)  # one decision, then whatever else is due

            yield [group.create_task(begin_passes(), name=f"{name}-{number}") for number in range(takers)]
            queue.shut_down()
            limit.reschedule(asyncio.get_running_loop().time() + drain)
    except TimeoutError:
        pass  # the drain is over: what still ran is cancelled. Any other error leaves the group as an ExceptionGroup
    finally:
        queue.shut_down()


async def _one_pass(queue: WorkQueue[K], item: WorkItem[K], handle: Handle[K], around: Around[K]) -> None:
    loop, gave_back = asyncio.get_running_loop(), False

    def requeue(reason: str) -> None:
        nonlocal gave_back
        gave_back = True
        queue.add(item.key, reason)
        queue.done(item)

    try:
        with around(item) as passed:
            began, crashed = loop.time(), False
            result: Outcome
            try:
                result = await handle(item, requeue)
            except Exception as error:  # a bug in one pass does not end the others
                if ExceptionGroup("pass", [error]).subgroup(LeadershipLost) is not None:
                    raise
                result, crashed = Retry(error), True
            if not (gave_back or isinstance(result, Retry)):  # else the delay may be that of a later pass
                queue.forget(item.key)
            apply_outcome(queue, item.key, result)
            passed(Pass(item, result, loop.time() - began, crashed))
    finally:
        queue.done(item)


def apply_outcome(queue: WorkQueue[K], key: K, outcome: Outcome) -> None:
    match outcome:
        case Done():
            pass
        case RequeueAfter(after=after, reason=reason):
            queue.add_after(key, after, reason)
        case Retry(at_least=at_least, at_most=at_most):
            queue.add_rate_limited(key, at_least)
            if at_most is not None:
                queue.add_after(key, at_most, "timer")
        case _:
            assert_never(outcome)


class AnswerTimer:
    """Times the answers a pass waits for. After `SILENCE_SECONDS` without one, sets `is_late` and requeues the key,
    then again for each answer."""

    def __init__(self, requeue: Requeue) -> None:
        self._requeue = requeue
        self._timer: asyncio.TimerHandle | None = None
        self.is_late = False

    def __enter__(self) -> AnswerTimer:
        self._timer = asyncio.get_running_loop().call_later(SILENCE_SECONDS, self._on_silence)
        return self

    def __exit__(self, *raised: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def came(self) -> None:
        if self.is_late:
            self._requeue("answered at last")
        elif self._timer is not None:
            self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_later(SILENCE_SECONDS, self._on_silence)

    def _on_silence(self) -> None:
        self.is_late = True
        self._requeue("not answered yet")


def outcome(errors: Sequence[ApiError], due: float | None = None) -> Outcome:
    """A retry with the first error, if any. `due`: seconds until there is work even without an event."""
    if errors:
        return Retry(errors[0], errors[0].retry_after or 0.0, due)
    return Done() if due is None else RequeueAfter(due)
