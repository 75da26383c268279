"""Hands that take keys from the queue, and the one policy for what happens to a key afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from typing import Generic, TypeAlias, TypeVar, assert_never

import msgspec

from controller.runtime.leader import LeadershipLost
from controller.runtime.workqueue import QueueClosed, Taken, WorkQueue

K = TypeVar("K", bound=Hashable)

DRAIN_SECONDS = 20.0


class Done(msgspec.Struct, frozen=True):
    """Nothing more to do until a trigger comes."""


class ComeBack(msgspec.Struct, frozen=True):
    """It went well, and time alone will change the answer in `after` seconds."""

    after: float
    reason: str = "timer"


class Retry(msgspec.Struct, frozen=True):
    """It failed; again after the key's growing delay, not sooner than `at_least` seconds."""

    error: Exception
    at_least: float = 0.0
    at_most: float | None = None
    """Something else is due in so many seconds, whatever the delay has grown to."""


Outcome: TypeAlias = Done | ComeBack | Retry


class Pass(msgspec.Struct, Generic[K], frozen=True):
    """One finished pass over a key: what logs and metrics are made of."""

    taken: Taken[K]
    outcome: Outcome
    work_seconds: float
    crashed: bool
    """The handler raised instead of answering: a bug of ours. The outcome is a `Retry` with that error."""


def settle(queue: WorkQueue[K], key: K, outcome: Outcome) -> None:
    """What becomes of `key`: forget its failures, come back in time, or retry with growing delay."""
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
    handle: Callable[[Taken[K]], Awaitable[Outcome]],
    *,
    on_outcome: Callable[[Pass[K]], None],
    drain: float = DRAIN_SECONDS,
) -> AsyncIterator[None]:
    """While the block runs, `count` workers process keys. It closes the queue when it is left.

    Left in peace, the workers finish the keys in their hands within `drain` seconds and are then cancelled.
    Left by an exception or by cancellation (leadership lost), they are cancelled at once.

    An exception from `handle` ends that pass and not the worker: it is told to `on_outcome` and retried.
    `LeadershipLost` is the exception to that: nobody may go on, so it leaves this block, inside an
    `ExceptionGroup`. So does an exception from `on_outcome`, which must not raise.
    """
    try:
        async with asyncio.TaskGroup() as group:
            crew = [
                group.create_task(_work(queue, handle, on_outcome), name=f"worker-{number}")
                for number in range(count)
            ]
            yield
            queue.close()
            if crew:
                _, late = await asyncio.wait(crew, timeout=drain)
                for worker in late:
                    worker.cancel()
    finally:
        queue.close()


async def _work(
    queue: WorkQueue[K],
    handle: Callable[[Taken[K]], Awaitable[Outcome]],
    on_outcome: Callable[[Pass[K]], None],
) -> None:
    loop = asyncio.get_running_loop()
    while True:
        try:
            async with queue.take() as taken:
                began = loop.time()
                crashed = False
                try:
                    outcome = await handle(taken)
                except Exception as error:
                    if _means_leadership_lost(error):
                        raise
                    outcome, crashed = Retry(error), True
                settle(queue, taken.key, outcome)
                on_outcome(Pass(taken, outcome, loop.time() - began, crashed))
        except QueueClosed:
            return


def _means_leadership_lost(error: Exception) -> bool:
    if isinstance(error, ExceptionGroup):
        return error.subgroup(LeadershipLost) is not None
    return isinstance(error, LeadershipLost)
