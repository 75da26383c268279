"""An event loop whose clock jumps to the next timer whenever every task waits: days pass in milliseconds.

Only for what runs without sockets (`tests.beds.simulator.InProcess`): bytes on their way do not hold a jump back.
Who opens one asks the loop to follow real time first; a jump with one open is an error.
`TimedLoop` knows how long a turn takes, in units of plain work on the same machine at the same time.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import Context
from time import thread_time
from typing import Any, ParamSpec, TypeVar, TypeVarTuple

import kubernetes_asyncio.client  # noqa: F401  # or the first typed request imports it in a thread, which no timer shows

P = ParamSpec("P")
T = TypeVar("T")

START = 1_790_000_000.0
"""What `clock` says when the loop's time is 0: 2026-09-21T14:13:20Z."""


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, now: float) -> None:
        super().__init__()
        self._now = now
        self._ahead: float | None = None
        """Of the machine's clock, in seconds, once time is real."""

    @property
    def now(self) -> float:
        return self._now if self._ahead is None else time.monotonic() + self._ahead

    def pass_by(self, seconds: float) -> None:
        if self._ahead is None:
            self._now += seconds
        else:
            self._ahead += seconds

    def follow_real_time(self) -> None:
        if self._ahead is None:
            self._ahead = self._now - time.monotonic()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self._ahead is not None:
            return super().select(timeout)
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise RuntimeError("every task waits, and there is no timer: this would never end")
        if len(self.get_map()) > 1:  # one is the loop's own
            raise RuntimeError("a socket or a pipe is open, and no jump waits for what it brings: follow_real_time()")
        self._now += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Work takes no time, only timers do. Its time is `start` seconds at first."""

    def __init__(self, start: float = 0.0) -> None:
        self._jumping = _JumpingSelector(start)
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def freeze(self, seconds: float) -> None:
        """Time passes and nothing runs: a stopped process, a paused machine."""
        self._jumping.pass_by(seconds)

    def follow_real_time(self) -> None:
        """From now on no second is left out: there are sockets or processes. Its time goes on from where it is."""
        self._jumping.follow_real_time()


def follow_real_time() -> None:
    """No second is left out any more, in whatever loop this runs."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, VirtualLoop):
        loop.follow_real_time()


def clock() -> float:
    """Wall-clock time, a `Clock`, in a virtual loop: it runs with the loop's time. Outside of any loop: `START`."""
    try:
        return START + asyncio.get_running_loop().time()
    except RuntimeError:
        return START


def now() -> float:
    """What the running loop's clock says, in seconds."""
    return asyncio.get_running_loop().time()


def run(main: Coroutine[Any, Any, T], *, start: float = 0.0) -> T:
    """Run `main` in virtual time, on a loop of its own whose clock begins at `start` seconds."""
    with asyncio.Runner(loop_factory=functools.partial(VirtualLoop, start)) as runner:
        return runner.run(main)


def virtually(main: Coroutine[Any, Any, T]) -> T:
    """The same from 1000 s on, so that a forgotten "now" (0.0) is told from the first moment."""
    return run(main, start=1000.0)


def virtual_time_from(start: float) -> Callable[[Callable[P, Coroutine[Any, Any, T]]], Callable[P, T]]:
    """Makes an asynchronous test a plain one that runs in virtual time. Its fixtures must be synchronous."""

    def decorate(test: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
        @functools.wraps(test)
        def synchronous(*args: P.args, **kwargs: P.kwargs) -> T:
            return run(test(*args, **kwargs), start=start)

        return synchronous

    return decorate


virtual_time = virtual_time_from(0.0)


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

    def __init__(self) -> None:
        super().__init__(1000.0)
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
