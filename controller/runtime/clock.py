"""The two clocks. Times in API objects are wall-clock time, which may jump when the machine's clock is set; every
duration is measured by `elapsed`, which never jumps.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeAlias

Clock: TypeAlias = Callable[[], float]
"""Returns the time now in seconds since 1970 (UTC). It may jump when the machine's clock is set."""

system_clock: Clock = time.time


def elapsed() -> float:
    """Seconds of the running event loop's time; only the difference of two of them means anything."""
    return asyncio.get_running_loop().time()
