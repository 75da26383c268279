"""The API server's time. Ages and deadlines are told in it, because the clock of this machine may be wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from email.utils import parsedate_to_datetime


class ServerClock:
    """This machine's clock, corrected by the `Date` header of the server's answers; not corrected while the two
    agree.

    The machine's clock is read only once, so setting it later changes nothing here.
    """

    def __init__(self, ticks: Callable[[], float], at_first: float) -> None:
        """`ticks`: a monotonic clock, in seconds. `at_first`: seconds since 1970, by this machine's clock."""
        self._ticks, self._epoch = ticks, at_first - ticks()
        self._least, self._most = -math.inf, math.inf

    def local(self) -> float:
        """Seconds since 1970, by this machine's clock."""
        return self._epoch + self._ticks()

    def now(self) -> float:
        """Seconds since 1970, by the server's clock."""
        return self.local() + min(max(0.0, self._least), self._most)

    def learn(self, date: str, asked: float) -> None:
        """Learn from an answer that has just arrived. `date`: its header, in whole seconds. `asked`: what `local`
        returned when the request was sent."""
        try:
            told = parsedate_to_datetime(date).timestamp()
        except ValueError:
            return
        least, most = told - self.local(), told + 1.0 - asked
        if max(least, self._least) > min(most, self._most):  # the server's clock was set, or this machine slept
            self._least, self._most = least, most
        else:
            self._least, self._most = max(least, self._least), min(most, self._most)
