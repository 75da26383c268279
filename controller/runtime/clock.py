"""Wall-clock time as a value that is handed in. Durations never use it: they use the running loop's time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

Clock: TypeAlias = Callable[[], float]
"""Seconds since 1970 (UTC), now. It may jump when the machine's clock is set."""

system_clock: Clock = time.time
