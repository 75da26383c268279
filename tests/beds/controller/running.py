"""The controller as a test holds it: started, stopped as by SIGTERM, or cut off in the middle of anything; and how
many entries each of its collections has."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from controller import app
from controller.kube.prometheus import Prometheus
from controller.kube.requests import Transport
from controller.observe.metrics import encoded
from controller.runtime.clock import Clock, system_clock
from controller.settings import Settings
from controller.wiring import Parts

OURS = ("controller.", "prometheus_client.")


def entries(root: object) -> Counter[str]:
    """The entries of every collection that can be reached from there, summed up by class and attribute:
    `DaemonSetState.predecessors`. A collection inside another one counts beside it, with `[]`."""
    found, seen = Counter[str](), dict[int, object]()
    left: list[tuple[str, Any]] = [("", root)]
    while left:
        label, one = left.pop()
        if id(one) in seen:
            continue
        seen[id(one)] = one  # kept, so that its id stays its own
        if isinstance(one, Mapping):
            found[label] += len(one)
            left += [(f"{label}[]", inner) for pair in one.items() for inner in pair]
        elif isinstance(one, list | tuple | set | frozenset | deque):
            found[label] += len(one)
            left += [(f"{label}[]", inner) for inner in one]
        else:
            left += _inside(label, one)
    return found


def _inside(label: str, one: Any) -> Iterator[tuple[str, Any]]:
    """What an object refers to, each with its label."""
    kind = type(one)
    if isinstance(one, partial):
        yield from ((label, inner) for inner in (one.func, one.args, one.keywords))
    elif isinstance(one, MethodType):
        yield label, one.__self__
    elif isinstance(one, FunctionType):
        for cell in one.__closure__ or ():
            with suppress(ValueError):  # it is still empty
                yield label, cell.cell_contents
    elif kind.__module__.startswith(OURS) and not isinstance(one, type):
        slots = (name for base in kind.__mro__ for name in getattr(base, "__slots__", ()))
        for name in {*getattr(one, "__dict__", {}), *getattr(kind, "__struct_fields__", ()), *slots}:
            with suppress(AttributeError):
                yield f"{kind.__name__}.{name}", getattr(one, name)


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
        self.prometheus: Prometheus | None = None
        """From the next start on."""
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

    def remembers(self) -> Counter[str]:
        """How many entries each of its collections has; see `memory.entries`."""
        return entries(self._parts)

    def scrape(self) -> str:
        """What /metrics would say now; raises ConnectionError where no server listens."""
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
        """Its parts are kept: from outside, a controller that rests looks like one that waits."""
        self._elected = settings.leader_elect
        self._parts = Parts(
            settings, self._transport, clock=lambda: self._clock() + self.ahead, prometheus=self.prometheus
        )
        await app.run(settings, self._parts, self._stop, self.options)
