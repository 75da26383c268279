"""Measures whether the event loop runs on time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

INTERVAL = 0.1
BLOCKED_SECONDS = 10.0
"""Seconds; a leader that was blocked for so long has lost its Lease (`Timing.renew_deadline`)."""


class Heartbeat:
    """When the event loop last ran on time (loop time)."""

    def __init__(self) -> None:
        self.at = asyncio.get_running_loop().time()

    def check(self) -> str:
        """A `Check`: fails if the loop was blocked for longer than `BLOCKED_SECONDS` and has not recovered since."""
        silence = asyncio.get_running_loop().time() - self.at
        return f"the event loop was blocked for {silence:.0f} s" if silence > BLOCKED_SECONDS else ""


@asynccontextmanager
async def heartbeat(on_lag: Callable[[float], None]) -> AsyncIterator[Heartbeat]:
    """Run ten times a second while the block runs, and report how many seconds late each time was."""
    heart = Heartbeat()
    async with asyncio.TaskGroup() as group:
        beating = group.create_task(_beat(heart, on_lag), name="heartbeat")
        yield heart
        beating.cancel()


async def _beat(heart: Heartbeat, on_lag: Callable[[float], None]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + INTERVAL
        await asyncio.sleep(INTERVAL)  # how late it wakes up is what is measured
        heart.at = loop.time()
        on_lag(max(0.0, heart.at - due))
