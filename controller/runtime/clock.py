"""Wall-clock time, which API objects hold, and the monotonic time that measures every duration."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import TypeAlias

import msgspec

Clock: TypeAlias = Callable[[], float]
"""Returns the current time in seconds since 1970 (UTC). It may jump when the machine's clock is set."""

system_clock: Clock = time.time


class ServerClock:
    """The API server's clock, by the `Date` header of its last answer."""

    def __init__(self) -> None:
        self._date, self._at = "", 0.0

    def learn(self, date: str) -> None:
        if date:
            self._date, self._at = date, elapsed()

    def ahead(self, now: float) -> float:
        """Seconds by which it is at least ahead of `now`, at most one fewer than it is; 0 if not known."""
        try:
            return parsedate_to_datetime(self._date).timestamp() + elapsed() - self._at - now
        except ValueError:
            return 0.0


def elapsed() -> float:
    """Seconds of the running event loop's monotonic time; only differences are meaningful."""
    return asyncio.get_running_loop().time()


class Instant(msgspec.Struct, frozen=True):
    """The same moment by both clocks. What is remembered is `elapsed` and converted in each pass, so that setting the
    wall clock changes no duration."""

    wall: float
    """Seconds since 1970."""
    elapsed: float

    def to_wall(self, elapsed: float) -> float:
        return self.wall + elapsed - self.elapsed

    def to_elapsed(self, wall: float) -> float:
        return self.elapsed + wall - self.wall
