"""The whole controller process, once or twice, on a simulated cluster in virtual time, for a caller that is not
asynchronous.

`Stage.run` enters the loop for one move and leaves it again; everything that runs stays where it is meanwhile,
because the time of a virtual loop stands still while it is left.
"""

from __future__ import annotations

import asyncio
import logging
import random
import traceback
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar
from unittest.mock import patch

import structlog
from structlog.typing import EventDict

from controller.api.daemonset import rollout_of
from controller.planner.blocker_texts import Blocker
from controller.planner.plan import Plan, plan
from controller.planner.world import World
from controller.reconcile import reconcile
from tests.beds.api import NAMESPACES, Api
from tests.beds.controller.bed import Bed, Simulation
from tests.beds.controller.journal import Journal
from tests.beds.nodes import Nodes
from tests.beds.simulator.cluster import Cluster
from tests.beds.simulator.kinds import DAEMONSETS, PODS
from tests.beds.simulator.store import HistoryEntry
from tests.beds.simulator.transport import InProcess
from tests.beds.virtual_time import START, clock
from tests.beds.worlds import picture
from tests.properties.explanation_law import blockers, misled, misnamed
from tests.simulation import progress
from tests.simulation.chronicle import Chronicle
from tests.simulation.laws import broken, crowd
from tests.simulation.loop import SimulatedLoop
from tests.simulation.oracle import Oracle
from tests.simulation.process import ACTING, Process
from tests.simulation.progress import Course
from tests.simulation.pulls import Pulls
from tests.simulation.record import ON_TIME, As, Record
from tests.simulation.scene import State, pod_of

T = TypeVar("T")

NAMESPACE = "agents"
LEADERLESS = 120.0
"""Seconds within which a process leads."""
PAGE = 2
"""Objects on a page of a list, so that lists have several."""
REST = 1.0
"""Seconds: what a process has put off for less is waited for."""


class Broken(AssertionError):
    """A law was broken, or the end is not what it should be."""


class Stage:
    """One cluster and its controller processes, until `close`."""

    bed: Bed
    record: Record
    processes: tuple[Process, ...]
    course: Course
    pulls: Pulls | None = None

    def __init__(
        self,
        seed: int = 0,
        *,
        processes: int = 1,
        elects: bool = False,
        latency: float = 0.0,
        pulls: bool = False,
        lists: bool = False,
    ) -> None:
        self.clock_ahead = 0.0
        """Seconds by which the nodes' clocks are ahead of all others."""
        self.stale_until = 0.0
        self._count, self._elects, self._latency = processes, elects, latency
        self._pulls, self._lists = pulls, lists
        self._told: Mapping[str, Blocker | None] = {}
        """Node to what keeps it, in the pass before."""
        structlog.configure([self._logged], wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
        random.seed(seed)
        self._loop = SimulatedLoop()
        self._leave = asyncio.Event()
        self._host = self._loop.create_task(self._play(), name="stage")
        self._began = asyncio.Event()
        self._loop.run_until_complete(self._raised())

    @property
    def chronicle(self) -> Chronicle:
        """Of the process that leads."""
        return next((one for one in self.processes if one.leads), self.processes[0]).chronicle

    @property
    def time(self) -> float:
        return self._loop.time()

    def run(self, move: Coroutine[Any, Any, T]) -> T:
        """Carry out one move. Raises Broken when a law was broken meanwhile, and whatever brought the stage down."""
        done = self._loop.run_until_complete(move)
        if self._host.done():
            self._host.result()
            raise Broken("the stage has ended by itself")
        self.judge()
        return done

    def clock(self) -> float:
        """Seconds since 1970, outside of the loop."""
        return START + self._loop.time()

    def inside(self, work: Coroutine[Any, Any, T]) -> T:
        """Carry out what is not judged."""
        return self._loop.run_until_complete(work)

    def look(self) -> State:
        """The server's state now."""

        async def inside() -> State:
            return self.chronicle.now()

        return self._loop.run_until_complete(inside())

    def judge(self, *more: str) -> None:
        record = self.record
        deaf = [f"{one.identity} {charge}" for one in self.processes for charge in one.chronicle.deaf]
        unguarded = [charge for one in self.processes for charge in one.ear.unguarded]
        if charges := [*record.charges, *deaf, *unguarded, *more]:
            raise Broken("\n".join(charges))

    def close(self) -> None:
        """Whatever happened before. An error of what ran is raised by `run`, not here."""
        try:
            self._leave.set()
            self._loop.run_until_complete(asyncio.wait([self._host]))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()
            structlog.reset_defaults()

    async def led(self) -> None:
        """Until a process may write."""
        until = self._loop.time() + LEADERLESS
        while not any(one.leads for one in self.processes):
            if self._loop.time() > until:
                raise Broken(f"for {LEADERLESS:g} s no process leads")
            await asyncio.sleep(1.0)

    async def idle(self, seconds: float) -> None:
        """Until no process has written for so long, and none has put off anything for less than a second."""
        journal, until = self.bed.journal, self._loop.time() + self.bed.patience
        while True:
            before = journal.last
            await asyncio.sleep(seconds)
            silent = journal.last == before and not journal.in_flight
            if silent and all(one.rests(REST) for one in self.processes):
                return
            if self._loop.time() > until:
                raise Broken(f"no end of writing; {journal}")

    async def _raised(self) -> None:
        """The curtain is up."""
        waiting = asyncio.create_task(self._began.wait())
        await asyncio.wait([waiting, self._host], return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            waiting.cancel()
            await self._host

    async def _play(self) -> None:
        async with self._open():
            self._began.set()
            await self._leave.wait()

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[None]:
        cluster, journal = Cluster(clock, watch_list=not self._lists, strict_namespaces=True), Journal()
        self.record = Record(cluster, self._loop.time)
        self.api = Api(As("user", InProcess(cluster, keep=1)), NAMESPACE)
        await self.api.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        async with AsyncExitStack() as stack:
            stack.enter_context(patch.object(reconcile, "plan", self._planned))
            stack.enter_context(patch("controller.runtime.watch.PAGE_SIZE", PAGE))
            stack.enter_context(patch("controller.wiring.socket.gethostname", lambda: ACTING.get().name))
            stack.enter_context(patch("controller.wiring.secrets.token_hex", lambda _: f"{ACTING.get().life:08x}"))
            stack.enter_context(patch.dict("os.environ", {"POD_NAME": ""}))
            way = As("cluster", InProcess(cluster, keep=1))
            machines = Nodes(way, clock=lambda: clock() + self.clock_ahead)
            nodes = await stack.enter_async_context(machines)
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            self.processes = tuple(
                Process(
                    name,
                    cluster,
                    self.record,
                    journal,
                    tasks,
                    self._written,
                    namespace=NAMESPACE,
                    latency=self._latency,
                    pulls=self._pulls,
                    elects=self._elects,
                    clock=clock,
                )
                for name in "ab"[: self._count]
            )
            first = self.processes[0]
            self.oracle = Oracle(clock, lambda: ACTING.get().identity, self.record.fired)
            for process in self.processes:
                process.prometheus = self.oracle.prometheus
            if self._pulls:
                chronicles = [one.chronicle for one in self.processes]
                self.pulls = Pulls(cluster, self.record, lambda: chronicles, nodes.images_of)
            self.course = Course(first.chronicle, self.oracle)
            simulation = Simulation(cluster, first.link)
            self.bed = Bed(self.api, nodes, first, journal, clock, simulation, patience=100_000.0)
            for process in self.processes:
                process.begin()
            try:
                yield
            finally:
                for process in self.processes:
                    await process.kill()

    def _logged(self, _logger: object, _level: str, event: EventDict) -> EventDict:
        """What the controller logs as an error: a pass that raised."""
        error = event.get("exc_info")
        if isinstance(error, BaseException):
            self.record.charge("crash", "".join(traceback.format_exception(error)))
        raise structlog.DropEvent

    def _planned(self, world: World) -> Plan:
        """Stands before the planner to note the moment of the decision, and to judge how this very world is
        explained."""
        acting = ACTING.get()
        acting.chronicle.decided()
        self.record.judged["a new leader knows what its predecessor wrote"] += self._count > 1
        known = clock() > self.stale_until  # lists may be of a time before
        for entry in (
            () if not known else acting.chronicle.unknown_of_predecessors(self.record.leads_since(acting.identity))
        ):
            self.record.charge("leader", f"{acting.identity} does not know of {entry.after or entry.before}")
        decided = plan(world)
        for charge in acting.chronicle.believes_what_never_was(fresh=world.fresh):
            self.record.charge("restore", f"{acting.identity} {charge}")
        for charge in self._wrongly_explained(world):
            self.record.charge("explanation", f"{charge}\n{picture(world, decided)}")
        return decided

    def _wrongly_explained(self, world: World) -> Iterator[str]:
        """Which blocker ends with what is asked only where others hold than in the pass before."""
        rolling = world.daemonset.spec.update_strategy.rolling_update  # also of OnDelete, which may be thought away
        if world.rules.problems or (rolling is not None and rolling.topology):
            return  # of a domain that has room for one, several may be next
        yield from misled(world)
        if rolling is not None and (rolling.steps or rolling.on_failure):
            return  # random worlds ask the rest in test_explanation.py, where what is undone is known
        if rollout_of(world.daemonset.status).aborted_revision:
            return
        if (told := blockers(world)) != self._told:
            self._told = told
            yield from misnamed(world)

    def _written(self, change: HistoryEntry, server: Chronicle) -> None:
        """Within a write of the controller: nothing may be raised here."""
        self.record.judged["a write by what its process was told"] += change.after.kind is PODS
        if ON_TIME.get() == []:  # what the process knows now it did not know when it sent that
            after = pod_of(change.after.object, None, clock()) if change.after.kind is PODS else None
            for charge in crowd(after, server) if after is not None and change.before is None else ():
                self.record.charge("write", charge)
            return
        self.record.judged["a write by the fields of progressive rollouts"] += change.after.kind is DAEMONSETS
        images = () if self.pulls is None else self.pulls.broken(change, server)
        for charge in (*broken(change, server), *progress.broken(change, server, self.course), *images):
            scenes = (("told", server.told()), ("at the server", server.now()))
            tables = "".join(f"\n   {title}:\n{scene.table()}" for title, scene in scenes)
            self.record.charge("write", f"{charge}{tables}")
