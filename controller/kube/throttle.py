"""How many requests may be under way, and how many may start in a second."""

from __future__ import annotations

import asyncio
import math
from collections import deque


class NoTurn(TimeoutError):  # noqa: N818 - an answer, not a fault
    """The turn would come too late to be of use; nothing was booked."""


CEILING = 50
"""Requests in flight, at most. Beyond some tens, an API server only queues them."""
STEP_SECONDS = 1.0
"""A good second earns one more place; within one second, several 429s count as one."""


class Throttle:
    """A first-come-first-served gate in front of the API server; every `enter` needs its `leave`.

    The number of places follows the server: halved when it answers 429, one more for every second without
    (additive increase, multiplicative decrease), between 1 and `ceiling`. `qps` > 0 adds a token bucket of
    `burst` tokens (at least 1), filled at `qps` a second; 0 means no such limit (D17).

    Watches take no place: they last. What must never wait behind others (a lease) gets a gate of its own.
    """

    def __init__(self, *, ceiling: int = CEILING, qps: float = 0.0, burst: int = 0) -> None:
        self._ceiling = self._places = ceiling
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._changed = self._halved = float("-inf")
        self._interval = 1.0 / qps if qps > 0 else 0.0
        self._saved = self._interval * (max(burst, 1) - 1)
        self._next_token = float("-inf")

    @property
    def places(self) -> int:
        """Requests that may be in flight now."""
        return self._places

    @property
    def in_flight(self) -> int:
        return self._in_flight

    async def enter(self, within: float = math.inf) -> None:
        """Wait for a turn. When cancelled meanwhile, no turn was taken and no `leave` is due.

        Raises NoTurn at once where the rate alone puts the turn off for more than `within` seconds: so the number of
        those who wait for a token is bounded.
        """
        if self._interval:
            await self._take_token(within)
        if self._in_flight < self._places:  # then nobody waits: whoever leaves admits
            self._in_flight += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the turn was given at the very moment of the cancellation
                self._in_flight -= 1
            self._admit()
            raise

    def leave(self, *, busy: bool = False) -> None:
        """The request is over. `busy`: the server answered 429."""
        self._in_flight -= 1
        now = asyncio.get_running_loop().time()
        if busy:
            if now - self._halved >= STEP_SECONDS:
                self._places = max(1, self._places // 2)
                self._halved = now
            self._changed = now
        elif self._places < self._ceiling and now - self._changed >= STEP_SECONDS:
            self._places += 1
            self._changed = now
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._in_flight < self._places:
            turn = self._waiting.popleft()
            if not turn.done():  # else cancelled
                self._in_flight += 1
                turn.set_result(None)

    async def _take_token(self, within: float) -> None:
        """Tokens are handed out by the time at which each falls due, so that order and rate need no clock tick."""
        now = asyncio.get_running_loop().time()
        due = max(self._next_token, now - self._saved)
        if due - now > within:
            raise NoTurn
        self._next_token = due + self._interval
        if due > now:
            await asyncio.sleep(due - now)
