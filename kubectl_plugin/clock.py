"""What time it is to the server: ages and deadlines are told in its time, and this machine's clock may be wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from email.utils import parsedate_to_datetime


class Clock:
    """This machine's clock, put right by the `Date` of the server's answers; untouched where they fit together."""

    def __init__(self, local: Callable[[], float]) -> None:
        """`local`: seconds since 1970."""
        self.local = local
        self._least, self._most = -math.inf, math.inf

    def now(self) -> float:
        """Seconds since 1970."""
        return self.local() + min(max(0.0, self._least), self._most)

    def heard(self, date: str, asked: float) -> None:
        """`date`: of an answer that has just come, in whole seconds; `asked`: what `local` said before."""
        try:
            told = parsedate_to_datetime(date).timestamp()
        except ValueError:
            return
        least, most = told - self.local(), told + 1.0 - asked
        if max(least, self._least) > min(most, self._most):  # one of the clocks was set
            self._least, self._most = least, most
        else:
            self._least, self._most = max(least, self._least), min(most, self._most)
