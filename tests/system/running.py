"""The controller as a test holds it: started, stopped as by SIGTERM, or cut off in the middle of anything."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from controller import app
from controller.kube.request import Transport
from controller.runtime.clock import Clock, system_clock
from controller.settings import Settings


class Controller:
    """One controller at a time, in this process, without election. `tasks` owns what runs."""

    def __init__(
        self, transport: Transport, namespace: str, tasks: asyncio.TaskGroup, *, clock: Clock = system_clock
    ) -> None:
        self._transport, self._tasks, self._clock = transport, tasks, clock
        self.settings = Settings(namespaces=(namespace,), leader_elect=False, metrics_address="0", health_address="0")
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self, settings: Settings | None = None) -> None:
        assert not self.is_running, "the controller runs already"
        self._stop = asyncio.Event()
        run = app.run(settings or self.settings, self._transport, self._stop, clock=self._clock)
        self._task = self._tasks.create_task(run, name="controller")

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
