"""The fence: the last check, before a write leaves the process, that this process still leads.

A process that was frozen may wake up in the middle of a plan, or with a connection half open. So the deadline of its
Lease is checked for every write, before a connection is opened and again just before the bytes are sent.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import msgspec

from controller.kube.request import Request, Response, Stream, Transport
from controller.runtime.leader import LeadershipLost


class Fence:
    """A transport that lets reads pass and checks each write. No write passes until `open` was called."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._guard: Callable[[], None] | None = None

    def open(self, guard: Callable[[], None]) -> None:
        """Let writes pass if `guard` does not raise."""
        self._guard = guard

    @property
    def is_open(self) -> bool:
        """Whether a write would pass now, that is, whether this process leads."""
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
