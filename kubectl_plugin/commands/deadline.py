"""`--timeout`: one deadline for everything that a verb waits for, including the server's answers."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from kubectl_plugin.cluster.session import Invocation
from kubectl_plugin.errors import CommandError, ExitCode
from kubectl_plugin.units import seconds_of

GRACE: Final = 0.5
"""Seconds past the deadline for code that checks it itself and reports how far the rollout is."""


class TimedOut(CommandError):
    def __init__(self, after: str) -> None:
        super().__init__(f"timed out after {after}: the server does not answer", exit_code=ExitCode.TIMED_OUT)


class Deadline:
    def __init__(self, invocation: Invocation, text: str) -> None:
        """`text`: a duration such as 10m, counted from the start of the command and again from each answer to a
        prompt; empty or 0: no deadline. Raises UsageError."""
        self.text, self._invocation = text, invocation
        self._seconds = seconds_of(text, "--timeout") or math.inf

    @property
    def _at(self) -> float:
        return max(self._invocation.began, self._invocation.terminal.answered) + self._seconds

    @property
    def seconds_left(self) -> float:
        """Negative after the deadline, infinite without one."""
        return self._at - asyncio.get_running_loop().time()

    @asynccontextmanager
    async def enforced(self) -> AsyncIterator[None]:
        """Cancels the block at the deadline, and does not begin it afterwards. Raises TimedOut."""
        if self.seconds_left <= -GRACE:
            raise TimedOut(self.text)
        try:
            async with asyncio.timeout_at(None if self._at == math.inf else self._at + GRACE) as scope:
                yield
        except TimeoutError:
            if not scope.expired():
                raise
            raise TimedOut(self.text) from None
