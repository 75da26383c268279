"""The controller as a test holds it: started, stopped as by SIGTERM, or cut off in the middle of anything."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress

from controller import app
from controller.kube.requests import Transport
from controller.observe.metrics import encoded
from controller.runtime.clock import Clock, system_clock
from controller.settings import Settings
from controller.wiring import Parts
from tests.beds.controller.memory import entries

SHARED = app.ProcessOptions(measures_lag=False, freezes_garbage=False, watchdog=None)
"""For a controller in the process of a test."""


class Controller:
    """One controller at a time, in this process, without election. `tasks` owns what runs."""

    def __init__(
        self, transport: Transport, namespace: str, tasks: asyncio.TaskGroup, *, clock: Clock = system_clock
    ) -> None:
        self._transport, self._tasks, self._clock = transport, tasks, clock
        self.settings = Settings(
            namespaces=(namespace,), leader_elect=False, metrics_address=None, health_address=None
        )
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._parts: Parts | None = None
        self._elected = False
        self.options = SHARED
        self.ahead = 0.0
        """Seconds by which its machine's clock is ahead of everybody else's; may be set at any time."""

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self, settings: Settings | None = None) -> None:
        assert not self.is_running, "the controller runs already"
        self._stop, self._parts = asyncio.Event(), None
        self._task = self._tasks.create_task(self._run(settings or self.settings), name="controller")

    def rests(self, seconds: float) -> bool:
        """Whether it has nothing to do, and nothing that it has put off for less than `seconds`."""
        if not self.is_running:
            return True
        if self._parts is None or not self._parts.leadership.is_valid():
            return self._elected  # a standby keeps what it would have to do
        queue, now = self._parts.queue, asyncio.get_running_loop().time()
        busy = queue.depth or queue.processing_seconds()
        return not busy and all(timer.when() > now + seconds for timer in queue._timers.values())

    def kept_writes(self) -> int:
        """Of how many objects it still keeps its own writes, since a cache may have to show them."""
        assert self._parts is not None
        return len(self._parts.reconciler._expectations)

    def remembers(self) -> Counter[str]:
        """How many entries each of its collections has; see `memory.entries`."""
        return entries(self._parts)

    def scrape(self) -> str:
        """What /metrics would say now; raises ConnectionError where nobody listens."""
        if not self.is_running or self._parts is None:
            raise ConnectionError("the controller does not run")
        text, _ = encoded(tuple(self._parts.metrics.families()))
        return text.decode()

    async def stop(self) -> None:
        """As by SIGTERM: what is in hand is finished."""
        self._stop.set()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def kill(self) -> None:
        """From one moment to the next."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait([self._task])

    async def _run(self, settings: Settings) -> None:
        """Its parts are kept: from outside nobody can tell a controller that rests from one that waits."""
        self._elected = settings.leader_elect
        self._parts = Parts(settings, self._transport, clock=lambda: self._clock() + self.ahead)
        await app.run(settings, self._parts, self._stop, self.options)
