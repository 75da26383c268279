"""The real controller on a simulated cluster in virtual time, in the hands of tests that are not asynchronous.

`Stage.run` enters the loop for one move and leaves it again; everything that runs stays where it is meanwhile,
because the time of a virtual loop stands still while nobody is in it.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar
from unittest.mock import patch

import structlog
from structlog.typing import EventDict

from controller.planner.blocker_texts import Blocker
from controller.planner.plan import Plan, plan
from controller.planner.world import World
from controller.reconcile import reconcile
from tests.beds.api import NAMESPACES, Api
from tests.beds.controller.bed import Bed, Simulation
from tests.beds.controller.journal import Journal, Recording
from tests.beds.controller.running import Controller
from tests.beds.nodes import Nodes
from tests.beds.objects import node_of
from tests.beds.simulator.cluster import Cluster
from tests.beds.simulator.faults import FaultPlan
from tests.beds.simulator.kinds import PODS
from tests.beds.simulator.store import HistoryEntry
from tests.beds.simulator.transport import InProcess
from tests.beds.virtual_time import VirtualLoop, clock
from tests.beds.worlds import picture
from tests.properties.explanation_law import blockers, misled, misnamed
from tests.properties.rollout_chronicle import Chronicle, Ear
from tests.properties.rollout_laws import broken
from tests.properties.rollout_scene import State

T = TypeVar("T")

NAMESPACE = "agents"


class Broken(AssertionError):
    """A law was broken, or the end is not what it should be; with the story so far."""


class Stage:
    """One cluster and one controller, until `close`."""

    bed: Bed
    chronicle: Chronicle
    ear: Ear

    def __init__(self) -> None:
        self.story: list[str] = []
        self.clock_ahead = 0.0
        """Seconds by which the nodes' clocks are ahead of everybody else's."""
        self._charges: list[str] = []
        self._told: Mapping[str, Blocker | None] = {}
        """Node to what keeps it, in the pass before."""
        structlog.configure([self._logged], wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
        self._loop = VirtualLoop()
        self._leave = asyncio.Event()
        self._host = self._loop.create_task(self._play(), name="stage")
        self._began = asyncio.Event()
        self._loop.run_until_complete(self._raised())

    def run(self, move: Coroutine[Any, Any, T]) -> T:
        """Carry out one move. Raises Broken when a law was broken meanwhile, and whatever brought the stage down."""
        done = self._loop.run_until_complete(move)
        if self._host.done():
            self._host.result()
            raise Broken("the stage has ended by itself")
        self.judge()
        return done

    def look(self) -> State:
        """The server's state now."""

        async def inside() -> State:
            return self.chronicle.now()

        return self._loop.run_until_complete(inside())

    def tell(self, line: str) -> None:
        """Add a line to the story."""
        self.story.append(f"  {self._loop.time():8.2f}  {line}")

    def judge(self, *more: str) -> None:
        charges = [*self._charges, *self.chronicle.deaf, *self.ear.unguarded, *more]
        if charges:
            raise Broken("\n".join([*charges, "the story:", *self.story]))

    def close(self) -> None:
        """Whatever happened before. An error of what ran is raised by `run`, not here."""
        try:
            self._leave.set()
            self._loop.run_until_complete(asyncio.wait([self._host]))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()
            structlog.reset_defaults()

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
        cluster, faults, journal = Cluster(clock, strict_namespaces=True), FaultPlan(), Journal()
        self.chronicle = Chronicle(cluster, self._written)
        link = InProcess(cluster, faults=faults, keep=1)
        self.ear = Ear(Recording(link, journal), self.chronicle)
        api = Api(InProcess(cluster, keep=1), NAMESPACE)
        await api.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        async with AsyncExitStack() as stack:
            stack.enter_context(patch.object(reconcile, "plan", self._planned))
            machines = Nodes(InProcess(cluster, keep=1), clock=lambda: clock() + self.clock_ahead)
            nodes = await stack.enter_async_context(machines)
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            controller = Controller(self.ear, NAMESPACE, tasks, clock=clock)
            self.bed = Bed(api, nodes, controller, journal, clock, Simulation(cluster, link), patience=100_000.0)
            self.start()
            try:
                yield
            finally:
                await controller.kill()

    def start(self) -> None:
        """The controller process."""
        self.chronicle.restarted()
        self.bed.controller.start()

    def _logged(self, _logger: object, _level: str, event: EventDict) -> EventDict:
        """What the controller logs as an error: a pass that raised."""
        error = event.get("exc_info")
        if isinstance(error, BaseException):
            self._charges.append(f"a pass crashed: {''.join(traceback.format_exception(error))}")
        raise structlog.DropEvent

    def _planned(self, world: World) -> Plan:
        """Stands before the planner to note the moment of the decision, and to judge how this very world is
        explained."""
        self.chronicle.decided()
        decided = plan(world)
        for charge in self._wrongly_explained(world):
            self._charges.append(f"the explanation: {charge}")
            self.tell(f"    BROKEN {charge}\n{picture(world, decided)}")
        return decided

    def _wrongly_explained(self, world: World) -> Iterator[str]:
        """Which blocker ends with what is asked only where others are told of than in the pass before."""
        if world.rules.problems:
            return
        yield from misled(world)
        if (told := blockers(world)) != self._told:
            self._told = told
            yield from misnamed(world)

    def _written(self, change: HistoryEntry, server: Chronicle) -> None:
        """Within a write of the controller: nothing may be raised here."""
        pod = server.pods.get(change.after.uid)
        if change.after.kind is PODS and (pod is None or not pod.terminating):
            ends = change.type == "DELETED" or change.after.metadata.get("deletionTimestamp")
            verb = "creates" if pod is None else "deletes" if ends else "patches"
            self.tell(f"    controller {verb} {change.after.name[1]} on {node_of(change.after.object)}")
        for charge in broken(change, server):
            self._charges.append(charge)
            self.tell(f"    BROKEN {charge}")
            for title, scene in (("told", server.told()), ("at the server", server.now())):
                self.story.append(f"   {title}:\n{scene.table()}")
