"""One controller process of a simulation: its way to the server, what it has seen, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar

from controller.kube.requests import Request, Response, Stream
from controller.runtime.clock import Clock
from controller.runtime.leader_election import LeadershipLost
from controller.settings import FeatureGates, Settings
from tests.beds.controller.journal import Journal, Recording
from tests.beds.controller.running import Controller
from tests.beds.simulator.cluster import Cluster
from tests.beds.simulator.route import route
from tests.beds.simulator.store import HistoryEntry
from tests.beds.simulator.transport import WRITES, InProcess
from tests.simulation.chronicle import Chronicle, Ear
from tests.simulation.loop import OWNER, SimulatedLoop
from tests.simulation.record import WHO, Record

ACTING: ContextVar[Process] = ContextVar("acting")
"""The process that decides."""
BACK = 2.0
"""Seconds until a process that has ended by itself is started again."""


class Process(Controller):
    """`name` is that of its pod; each life of it is another one in the record."""

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        record: Record,
        journal: Journal,
        tasks: asyncio.TaskGroup,
        on_write: Callable[[HistoryEntry, Chronicle], None],
        *,
        namespace: str,
        latency: float,
        pulls: bool,
        elects: bool,
        clock: Clock,
    ) -> None:
        self.name, self.life, self._record = name, 0, record
        self.link = InProcess(cluster, latency=latency, keep=1)
        self.chronicle = Chronicle(cluster, on_write)
        self.ear = Ear(Recording(self.link, journal), self.chronicle)
        super().__init__(self, namespace, tasks, clock=clock)
        self.settings = Settings(
            namespaces=(namespace,),
            leader_elect=elects,
            lease_namespace=namespace,
            gates=FeatureGates(pre_download=pulls),
            metrics_address=None,
            health_address=None,
        )
        self.is_dying = False
        self.is_wanted = False
        """Whether it is to be started again when it ends by itself."""
        self.dies_at: tuple[int, bool] | None = None
        """After so many more writes, and whether the last of these still reaches the server."""

    @property
    def identity(self) -> str:
        return f"{self.name}.{self.life}"

    @property
    def leads(self) -> bool:
        return self.is_running and self._parts is not None and self._parts.leadership.is_valid()

    def begin(self) -> None:
        """A new life."""
        if self.is_running:
            return
        self.life += 1
        self.is_wanted, self.is_dying, self.dies_at = True, False, None
        if self.settings.leader_elect:
            self._record.processes.add(self.identity)
        self._record.tell(f"{self.identity} starts")
        self.chronicle.restarted()
        self.start()

    async def kill(self) -> None:
        """From one moment to the next: nothing that its scopes do as they are left reaches the server."""
        self.is_dying, self.is_wanted = True, False
        self.thaw()
        await super().kill()

    async def end(self) -> None:
        """As by SIGTERM."""
        self.is_wanted = False
        self.thaw()
        await self.stop()

    def freeze(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        loop.suspend(self.name)

    def thaw(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        loop.resume(self.name)

    async def _run(self, settings: Settings) -> None:
        OWNER.set(self.name)
        ACTING.set(self)
        try:
            await super()._run(settings)
        except* LeadershipLost:
            self._record.tell(f"{self.identity} has lost the Lease, and ends")
            self._record.fired["the Lease is lost"] += 1
        finally:
            if self.is_wanted:
                asyncio.get_running_loop().call_later(BACK, self._back)

    def _back(self) -> None:
        if self.is_wanted:
            self.begin()

    # its way to the server

    async def exchange(self, request: Request) -> Response:
        if self.is_dying:
            raise ConnectionResetError("the process is gone")
        last = self._is_last_write(request)
        if last is False:
            self._die("before")
            raise ConnectionResetError("the process is gone")
        token = WHO.set(self.identity)
        try:
            way = self.link if route(request).plural == "leases" else self.ear  # a renewal does not wait
            return await way.exchange(request)
        finally:
            WHO.reset(token)
            if last:
                self._die("after")

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        if self.is_dying:
            raise ConnectionResetError("the process is gone")
        async with self.ear.stream(request) as stream:
            yield stream

    def _is_last_write(self, request: Request) -> bool | None:
        """None: it is not the one at which the process ends. Whether it still reaches the server."""
        where = route(request)
        if self.dies_at is None or where.verb not in WRITES or where.plural in ("leases", "events"):
            return None
        left, reaches = self.dies_at
        self.dies_at = (left - 1, reaches) if left > 1 else None
        return None if left > 1 else reaches

    def _die(self, when: str) -> None:
        self._record.fired[f"killed {when} a write is sent"] += 1
        self._record.tell(f"{self.identity} is killed {when} its write is sent")
        self.is_dying = True
        if self._task is not None:
            self._task.cancel()
