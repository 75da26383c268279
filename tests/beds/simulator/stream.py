"""The bytes of one open watch, as they reach the client: late, cut or not at all, if the fault plan says so."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator

from controller.kube.requests import Request, Response
from tests.beds.simulator import faults
from tests.beds.simulator.cluster import Cluster
from tests.beds.simulator.faults import Effect
from tests.beds.simulator.refusal import Refused
from tests.beds.simulator.watching import Watch

LONGEST_WATCH = 2700.0
"""Seconds, when the client names no timeoutSeconds; a server takes 30 to 60 minutes."""


class ErrorStream:
    """The answer to a watch that was not opened."""

    def __init__(self, response: Response) -> None:
        self.status = response.status
        self.retry_after = response.retry_after
        self._body = response.body

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._body


class WatchStream:
    """A watch that was opened: lines come when the cluster changes, and bookmarks when it does not."""

    status = 200
    retry_after: float | None = None

    def __init__(
        self, cluster: Cluster, watch: Watch, request: Request, effect: Effect | None, bookmark_seconds: float
    ) -> None:
        self.watch = watch
        self._cluster, self._effect, self._bookmark_seconds = cluster, effect, bookmark_seconds
        self._silence = request.timeout
        self._loop = asyncio.get_running_loop()
        asked = dict(request.query).get("timeoutSeconds") or "0"
        self._end = self._loop.time() + (float(asked) or LONGEST_WATCH)
        self._late = effect.seconds if isinstance(effect, faults.LateWatch) else 0.0
        self._waiting: deque[tuple[float, list[bytes]]] = deque()
        """Bunches of lines, each with the time from which the client may see it."""
        self._something = asyncio.Event()
        self._broken = False
        self._left = (
            effect.events if isinstance(effect, faults.CutLine | faults.CloseWatch | faults.ErrorEvent) else -1
        )
        """Events until the fault; -1 for none."""
        self._idle = effect.seconds if isinstance(effect, faults.CutIdle) else math.inf
        self._over = False
        watch.wake = self._arrived
        self._arrived()

    def reset(self) -> None:
        """Break the connection."""
        self._broken = True
        self._something.set()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Raises ConnectionResetError when the connection breaks, TimeoutError after too long a silence."""
        bookmark, cut = self._loop.time() + self._bookmark_seconds, self._loop.time() + self._idle
        while True:
            if self._broken or self._loop.time() >= cut:
                raise ConnectionResetError("injected fault: the watch is cut off")
            now = self._loop.time()
            if self._waiting and self._waiting[0][0] <= now:
                if chunk := self._with_fault(self._waiting.popleft()[1]):
                    yield chunk
                    cut = self._loop.time() + self._idle
                if self._over:
                    self._finish()
                    return
                continue
            if (self.watch.closed and not self._waiting) or now >= self._end:
                return
            if self.watch.bookmarks and now >= bookmark:
                bookmark = now + self._bookmark_seconds
                self.watch.bookmark(self._cluster.store.version)
                continue
            await self._wait(min(bookmark if self.watch.bookmarks else self._end, self._end, cut))

    def _arrived(self) -> None:
        if lines := self.watch.take():
            self._waiting.append((self._loop.time() + self._late, lines))
        self._something.set()

    async def _wait(self, until: float) -> None:
        if self._waiting:
            until = min(until, self._waiting[0][0])
        self._something.clear()
        silence = None if self._silence is None else self._loop.time() + self._silence
        try:
            async with asyncio.timeout_at(until if silence is None else min(until, silence)):
                await self._something.wait()
        except TimeoutError:
            if silence is not None and silence < until:
                raise TimeoutError(f"no byte for {self._silence} s") from None

    def _with_fault(self, lines: list[bytes]) -> bytes:
        """What to send: all lines, or what the fault leaves of them."""
        if self._left < 0:
            return b"".join(lines)
        whole, rest = lines[: self._left], lines[self._left :]
        self._left -= len(whole)
        if self._left or (self._cuts and not rest):
            return b"".join(whole)
        self._over = True
        if self._cuts:
            whole.append(rest[0][: len(rest[0]) // 2])
        if isinstance(self._effect, faults.ErrorEvent):
            refused = Refused(self._effect.status, self._effect.reason, self._effect.message)
            whole.append(b'{"type":"ERROR","object":%s}\n' % refused.body())
        return b"".join(whole)

    @property
    def _cuts(self) -> bool:
        return isinstance(self._effect, faults.CutLine)

    def _finish(self) -> None:
        """The end that the fault asks for."""
        if self._cuts or (isinstance(self._effect, faults.CloseWatch) and self._effect.reset):
            raise ConnectionResetError("injected fault: the watch is cut off")
