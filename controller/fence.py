"""The last check before a write leaves the process: does this process still lead?

A process that was frozen wakes up in the midst of a plan, or with a connection half open; so the deadline of its
lease is looked at on every write, before a connection is asked for and again when the bytes are about to leave.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import msgspec

from controller.kube.request import Request, Response, Stream, Transport
from controller.runtime.leader import LeadershipLost


class Fence:
    """A transport that lets reads pass and asks before each write. Closed to writes until `guard` is given."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._guard: Callable[[], None] | None = None

    def open(self, guard: Callable[[], None]) -> None:
        """Let writes pass for which `guard` does not raise."""
        self._guard = guard

    @property
    def is_open(self) -> bool:
        """Whether a write would pass now: whether this process leads."""
        if self._guard is None:
            return False
        try:
            self._guard()
        except LeadershipLost:
            return False
        return True

    async def exchange(self, request: Request) -> Response:
        if request.method != "GET":
            if self._guard is None:
                raise PermissionError("this process does not lead; nothing is written")
            self._guard()
            request = msgspec.structs.replace(request, permission=self._guard)
        return await self._transport.exchange(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        return self._transport.stream(request)
