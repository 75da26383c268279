"""An event loop whose clock jumps to the next timer whenever every task waits: days pass in milliseconds.

Only for what runs without sockets (`tests.beds.simulator.InProcess`): bytes on their way do not hold a jump back.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

START = 1_790_000_000.0
"""What `clock` says when the loop's time is 0: 2026-09-21T14:13:20Z."""


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, now: float) -> None:
        super().__init__()
        self.now = now

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise RuntimeError("every task waits, and there is no timer: this would never end")
        self.now += timeout
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
        self._jumping.now += seconds


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


def virtual_time(test: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Makes an asynchronous test a plain one that runs in virtual time. Its fixtures must be synchronous."""

    @functools.wraps(test)
    def synchronous(*args: P.args, **kwargs: P.kwargs) -> T:
        return run(test(*args, **kwargs))

    return synchronous
