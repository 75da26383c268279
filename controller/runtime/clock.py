"""Wall-clock time, which API objects hold, and the monotonic time that measures every duration."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeAlias

Clock: TypeAlias = Callable[[], float]
"""Returns the current time in seconds since 1970 (UTC). It may jump when the machine's clock is set."""

system_clock: Clock = time.time


def elapsed() -> float:
    """Seconds of the running event loop's monotonic time; only differences are meaningful."""
    return asyncio.get_running_loop().time()
