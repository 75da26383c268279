"""What time it is to the server: ages and deadlines are told in its time, and this machine's clock may be wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from email.utils import parsedate_to_datetime


class ServerClock:
    """This machine's clock, put right by the `Date` of the server's answers; untouched where they fit together.

    It is read once: who sets it later moves nothing.
    """

    def __init__(self, ticks: Callable[[], float], at_first: float) -> None:
        """`ticks`: seconds since whenever, which nobody sets. `at_first`: seconds since 1970, by this machine."""
        self._ticks, self._epoch = ticks, at_first - ticks()
        self._least, self._most = -math.inf, math.inf

    def local(self) -> float:
        """Seconds since 1970, by this machine."""
        return self._epoch + self._ticks()

    def now(self) -> float:
        """Seconds since 1970, by the server's clock."""
        return self.local() + min(max(0.0, self._least), self._most)

    def heard(self, date: str, asked: float) -> None:
        """`date`: of an answer that has just come, in whole seconds; `asked`: what `local` said before."""
        try:
            told = parsedate_to_datetime(date).timestamp()
        except ValueError:
            return
        least, most = told - self.local(), told + 1.0 - asked
        if max(least, self._least) > min(most, self._most):  # the server's was set, or this machine slept
            self._least, self._most = least, most
        else:
            self._least, self._most = max(least, self._least), min(most, self._most)
