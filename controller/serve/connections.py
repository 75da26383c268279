"""As many connections as a few scrapers and a kubelet need, and no more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp.web_protocol import RequestHandler
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import StreamResponse
from aiohttp.web_server import Server

MOST_IDLE = 50
IDLE_SECONDS = 150.0
"""Longer than the pause between two scrapes."""


class Bounded(Server):
    """Of the connections on which no answer is due, `MOST_IDLE` are kept: one more ends the one that has been idle
    longest. So nobody can use up all that there are, nor keep a probe or a scraper out by holding them.

    How many answers are due at once is for those to bound who make them wait.
    """

    def __init__(self, answer: Callable[[BaseRequest], Awaitable[StreamResponse]]) -> None:
        super().__init__(self._answered, access_log=None, keepalive_timeout=IDLE_SECONDS)
        self._answer = answer
        self._idle: dict[RequestHandler, asyncio.Transport] = {}
        """By how long they have been so, the longest first."""

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self._rests(handler, transport)

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self._idle.pop(handler, None)

    async def _answered(self, request: BaseRequest) -> StreamResponse:
        handler = request.protocol
        transport = self._idle.pop(handler, None)
        try:
            return await self._answer(request)
        finally:
            if transport is not None and not transport.is_closing():
                self._rests(handler, transport)

    def _rests(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        self._idle[handler] = transport
        if len(self._idle) <= MOST_IDLE:
            return
        done = (one for one, way in self._idle.items() if not way.get_write_buffer_size())  # its answer is sent
        self._idle.pop(next(done, next(iter(self._idle)))).abort()
