"""How long one turn of the event loop takes, in units of plain work on the same machine at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import Context
from time import thread_time
from typing import TypeVar, TypeVarTuple

from tests.beds.virtual_time import VirtualLoop

T = TypeVar("T")
R = TypeVar("R")
Ts = TypeVarTuple("Ts")
UNIT = 100_000
"""Rounds of the loop that is one unit: some milliseconds, on any machine."""


def unit() -> float:
    """Seconds of processor time that a unit of work takes here; the quickest of a few."""
    return min(_worked() for _ in range(5))


def _worked() -> float:
    began, total = thread_time(), 0
    for number in range(UNIT):
        total += number
    return thread_time() - began


class TimedLoop(VirtualLoop):
    """Knows how long its longest turn took, in seconds of this thread's processor time, and whose it was."""

    def __init__(self, start: float = 1000.0) -> None:
        super().__init__(start)
        self.longest, self.whose = 0.0, ""
        self._aside = 0.0

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        return super().call_soon(self._timed, callback, *args, context=context)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """What is done in here belongs to no turn: it is another machine's work."""
        began = thread_time()
        try:
            yield
        finally:
            self._aside += thread_time() - began

    def _timed(self, callback: Callable[..., object], *args: object) -> None:
        self._aside, began = 0.0, thread_time()
        try:
            callback(*args)
        finally:
            taken = thread_time() - began - self._aside
            if taken > self.longest:
                task = getattr(callback, "__self__", None)
                self.longest, self.whose = taken, task.get_name() if isinstance(task, asyncio.Task) else str(callback)


def aside() -> AbstractContextManager[None]:
    """`TimedLoop.aside` of the loop that runs."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, TimedLoop)
    return loop.aside()


async def answered(answer: Callable[[T], R], asked: T) -> R:
    """By another machine."""
    await asyncio.sleep(0)
    with aside():
        return answer(asked)
