"""The loop of a simulation: virtual time, an order of tasks that does not depend on addresses, and processes that can
be suspended one at a time."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Coroutine
from contextvars import ContextVar
from itertools import count
from typing import Any

from tests.beds.simulator import api
from tests.beds.virtual_time import VirtualLoop

OWNER: ContextVar[str] = ContextVar("owner", default="")
"""The process to which what runs belongs; empty: to none that can be suspended."""

_numbers = count()


MOST_TURNS, TURN = 2000, 0.000_001
"""So many turns may take no time; each later one takes these seconds, as on a machine."""


class _Numbered(asyncio.Task[Any]):
    """In sets, such as that of a TaskGroup, its place depends on its number and not on its address."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._number = next(_numbers)
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self._number


def _numbered(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **more: Any) -> asyncio.Task[Any]:
    return _Numbered(work, loop=loop, **more)


class SimulatedLoop(VirtualLoop):
    _ready: Any
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self) -> None:
        global _numbers
        super().__init__()
        _numbers = count()
        self.set_task_factory(_numbered)  # type: ignore[arg-type]
        self._turns, self._moment = 0, 0.0
        self._held: dict[str, list[asyncio.Handle]] = {}

    def suspend(self, owner: str) -> None:
        """Time passes, and nothing of `owner` runs: a stopped process, a paused virtual machine."""
        self._held.setdefault(owner, [])

    def resume(self, owner: str) -> None:
        for handle in self._held.pop(owner, []):
            if isinstance(handle, asyncio.TimerHandle):
                handle._scheduled = True  # type: ignore[attr-defined]
                heapq.heappush(self._scheduled, handle)
            else:
                self._ready.append(handle)

    def _run_once(self) -> None:
        self._turns, self._moment = (self._turns + 1 if self.time() == self._moment else 0), self.time()
        if self._turns > MOST_TURNS:  # a timer waits for less than the last digit of a moment
            self.freeze(TURN)
        if self._held:
            self._hold_back()
        super()._run_once()  # type: ignore[misc]

    def _hold_back(self) -> None:
        queues: tuple[Any, ...] = (self._ready, self._scheduled)
        for queue in queues:
            kept = []
            for handle in queue:
                owner = handle._context.get(OWNER, "")
                if owner in self._held and handle._callback is not api.handle:  # else it is on its way
                    self._held[owner].append(handle)
                    if isinstance(handle, asyncio.TimerHandle):
                        handle._scheduled = False  # type: ignore[attr-defined]
                else:
                    kept.append(handle)
            queue.clear()
            queue.extend(kept)
        heapq.heapify(self._scheduled)
