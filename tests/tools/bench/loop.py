"""The longest single step of the controller's event loop: while it starts, while nodes or pods are listed again, in a
rollout and in a scrape. Whatever else waits, a probe or the lease, waits for such a step."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable

import structlog

from controller import app
from controller.observe.metrics import exposing
from controller.settings import Settings
from controller.wiring import Parts
from tests.beds.virtual_time import TimedLoop, clock
from tests.tools.bench import manifests
from tests.tools.bench.figures import Figure, Values
from tests.tools.bench.fleet_server import FleetServer

SETS = 100
STEPS = {
    what: Figure(f"longest step of the event loop: {what} (ms)", {1000: 20})
    for what in (
        "start",
        "a list of pods, each changed",
        "a list of nodes, each changed",
        "a rollout",
        "a list of nodes, half of them gone",
        "a scrape",
    )
}
"""Milliseconds of processor time."""
REST = 120.0
"""Seconds, of virtual time, in which everything comes to rest."""


def loop(nodes: int, values: Values, say: Callable[[str], None], sets: int = SETS) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    timed = TimedLoop()
    measured = _Measured(timed, FleetServer(nodes, sets), values, say)
    gc.collect()
    gc.freeze()  # as the process does when all its code is imported
    with asyncio.Runner(loop_factory=lambda: timed) as runner:
        runner.run(measured.all())


class _Measured:
    def __init__(self, timed: TimedLoop, server: FleetServer, values: Values, say: Callable[[str], None]) -> None:
        self._timed, self._server, self._values, self._say = timed, server, values, say
        self._parts: list[Parts] = []

    async def all(self) -> None:
        settings = Settings(leader_elect=False, metrics_address=None, health_address=None)
        server, stop = self._server, asyncio.Event()

        parts = Parts(settings, server, clock=clock)
        options = app.ProcessOptions(measures_lag=True, freezes_garbage=True, watchdog=None)
        self._parts.append(parts)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(app.run(settings, parts, stop, options), name="controller")
            await self._rest("start", lambda: None)
            await self._rest("a list of pods, each changed", server.touch_pods)
            await self._rest("a list of nodes, each changed", server.relabel_nodes)
            await self._rest("a rollout", server.roll, times=20)
            with self._timed.aside():
                assert server.pods_of(manifests.NEXT_IMAGE) == server.nodes, "the rollout is not over"
            await self._rest("a list of nodes, half of them gone", server.lose_nodes)
            self._timed.follow_real_time()  # a large page is encoded in a thread
            async with exposing(parts.metrics.families) as exposition:
                await exposition("")
            self._note("a scrape")
            stop.set()
            await running

    async def _rest(self, what: str, happens: Callable[[], None], times: int = 1) -> None:
        with self._timed.aside():
            happens()
        await asyncio.sleep(times * REST)
        self._note(what)

    def _note(self, what: str) -> None:
        longest, whose = self._timed.longest * 1000, self._timed.whose
        self._say(f"the longest step of the loop, {what}: {longest:.1f} ms in {whose}")
        self._values[STEPS[what]]["ours"].append(longest)
        self._timed.longest, self._timed.whose = 0.0, ""
