"""One controller process of a simulation: its way to the server, what it has seen, and how it ends."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import Context, ContextVar
from functools import partial

from controller.kube.requests import Request, Response, Stream
from controller.runtime.clock import Clock
from controller.runtime.leader_election import RENEW_DEADLINE, LeadershipLost
from controller.settings import FeatureGates, Settings
from tests.beds.controller.journal import Journal, Recording
from tests.beds.controller.running import Controller
from tests.beds.simulator.cluster import Cluster
from tests.beds.simulator.route import route
from tests.beds.simulator.store import HistoryEntry
from tests.beds.simulator.transport import WRITES, InProcess
from tests.simulation.chronicle import DECISION, Chronicle, Ear
from tests.simulation.loop import OWNER, SimulatedLoop
from tests.simulation.record import ON_TIME, WHO, Record

ACTING: ContextVar[Process] = ContextVar("acting")
"""The process that decides."""
NEWS = 10.0
"""Seconds after which a process that was suspended has heard what happened meanwhile."""
IN_A_ROW, MOST_REFUSED = 10.0, 30
"""Seconds, and how often the same write may fail in these."""
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
        self.link.on_arrival = self._arrives
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
        self.freezes_at: tuple[int, float] | None = None
        """After so many more writes, for so many seconds, with the last of these on its way."""
        self.writes_under_way = 0
        self._under_way: list[tuple[str, str, bytes]] = []
        self._refusals: dict[tuple[str, bytes], deque[float]] = {}
        """When what was asked in vain, by path and, of a create, the object."""
        self._counts_from = self._right_ends = float("-inf")
        """By the answers that it got: from when on its renewals count, because it created the Lease, and until when
        it may write; `-inf`: it has not led."""

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
        self._refusals.clear()
        self._counts_from = self._right_ends = float("-inf")
        self._record.identities.add(self.identity)
        if self.settings.leader_elect:
            self._record.processes.add(self.identity)
            self._record.at_work[self.identity] = partial(self._has_writes, self.life)
        self._record.tell(f"{self.identity} starts")
        self.chronicle.restarted()
        self.start()

    def _has_writes(self, life: int) -> bool:
        return self.life == life and self.writes_under_way > 0

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
        self._freeze_at_write(request)
        token, waits = WHO.set(self.identity), [True]
        on_time = ON_TIME.set(waits)
        try:
            if (where := route(request)).plural == "leases":  # a renewal does not wait
                return await self._renew(request, where.verb)
            if not is_work(request):
                return await self.ear.exchange(request)
            return await self._work(request, f"{where.verb} {where.resource} {where.name}")
        finally:
            waits.clear()
            ON_TIME.reset(on_time)
            WHO.reset(token)
            if last:
                self._die("after")

    async def _work(self, request: Request, words: str) -> Response:
        """No write is begun while the same one is under way."""
        write = request.method, request.path, request.body
        if write in self._under_way:
            self._record.charge("twice", f"{self.identity} asks to {words} while it waits for the answer")
        self.writes_under_way += 1
        self._under_way.append(write)
        is_done = False
        try:
            response = await self.ear.exchange(request)
            is_done = response.status < 400
            return response
        finally:
            self._under_way.remove(write)
            self.writes_under_way -= 1
            if not is_done:
                self._refused(request, words)

    def _refused(self, request: Request, words: str) -> None:
        """What fails again and again is asked for ever less often."""
        kind, now = (request.path, request.body if request.method == "POST" else b""), self._clock()
        times = self._refusals.setdefault(kind, deque(maxlen=MOST_REFUSED))
        if len(times) == MOST_REFUSED and times[0] > now - IN_A_ROW:
            self._record.charge(
                "again", f"{self.identity} asks to {words} {MOST_REFUSED} times in {IN_A_ROW:g} s, in vain"
            )
            times.clear()
        times.append(now)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        if self.is_dying:
            raise ConnectionResetError("the process is gone")
        async with self.ear.stream(request) as stream:
            yield stream

    async def _renew(self, request: Request, verb: str) -> Response:
        """An answer counts from when it was asked for; and one whose right has ended does not take it up again."""
        sent, record = asyncio.get_running_loop().time(), self._record
        if verb in WRITES:
            record.judged["who has not renewed the Lease in time leaves it alone"] += 1
            if float("-inf") < self._right_ends < sent:
                record.charge(
                    "lease", f"{self.identity} writes it {sent - self._right_ends:.2f} s after its right ended"
                )
        response = await self.link.exchange(request)
        if verb in WRITES and 200 <= response.status < 300:
            if verb == "create" and self._right_ends < sent:
                self._counts_from = sent + RENEW_DEADLINE
            if sent >= self._counts_from:
                self._right_ends = sent + RENEW_DEADLINE
        return response

    def _arrives(self, request: Request) -> None:
        """A request that the server may refuse is judged, too."""
        if not is_work(request) or ("dryRun", "All") in request.query:
            return
        where = route(request)
        words = f"asks to {where.verb} {where.resource} {where.name}"
        if self.settings.leader_elect:
            self._record.may_write(self.identity, words)
            if (late := asyncio.get_running_loop().time() - self._right_ends) > 0:
                self._record.charge(
                    "lease", f"{self.identity} {words} {late:.2f} s after its right to write has ended"
                )
        if where.plural == "controllerrevisions" and where.verb == "create" and self.chronicle.spec is not None:
            self.chronicle.last_to_store = self.chronicle.spec.generation
        decision = DECISION.get(None)
        if decision is None or self.chronicle.predates_restore:
            return
        if where.plural == "pods" and decision.blind:
            self._record.charge("own writes", f"{self.identity} {words}, and has not seen {sorted(decision.blind)}")

    def _freeze_at_write(self, request: Request) -> None:
        if self.freezes_at is None or not is_work(request):
            return
        left, seconds = self.freezes_at
        self.freezes_at = (left - 1, seconds) if left > 1 else None
        if left <= 1:
            self._record.fired["process: suspended at a write"] += 1
            self.hold(seconds)

    def hold(self, seconds: float) -> None:
        """Suspend it for so long."""
        self._record.tell(f"{self.identity} is suspended for {seconds:g} s")
        self.chronicle.hindered_until = max(self.chronicle.hindered_until, self._clock() + seconds + NEWS)
        self.freeze()
        asyncio.get_running_loop().call_later(seconds, self.thaw, context=Context())

    def _is_last_write(self, request: Request) -> bool | None:
        """None: it is not the one at which the process ends. Whether it still reaches the server."""
        if self.dies_at is None or not is_work(request):
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


def is_work(request: Request) -> bool:
    where = route(request)
    return where.verb in WRITES and where.plural not in ("leases", "events")
