"""How many requests may be under way, and how many may start in a second."""

from __future__ import annotations

import asyncio
import math
from collections import deque


class NoTurn(TimeoutError):
    """The turn would come too late to be of use; nothing was booked."""


CEILING = 50
"""Requests in flight on the places that all share, at most. Beyond some tens, an API server only queues them."""
STEP_SECONDS = 1.0
"""A good second earns one more place; within one second, several 429s count as one."""


class Throttle:
    """The places that all share, in front of the API server. Requests come to it by a `Lane`.

    The number of places follows the server: halved when it answers 429, one more for every second without
    (additive increase, multiplicative decrease), between 1 and `ceiling`. `qps` > 0 adds a token bucket of
    `burst` tokens (at least 1), filled at `qps` a second; 0 means no such limit.

    Watches take no place: they last. What must never wait behind others (a lease) gets a gate of its own.
    """

    def __init__(self, *, ceiling: int = CEILING, qps: float = 0.0, burst: int = 0) -> None:
        self._ceiling = self._places = ceiling
        self._taken = 0
        self._line: deque[Lane] = deque()
        """Lanes in which somebody waits, each once; the others may stand here too."""
        self._changed = self._halved = float("-inf")
        self._interval = 1.0 / qps if qps > 0 else 0.0
        self._saved = self._interval * (max(burst, 1) - 1)
        self._next_token = float("-inf")

    @property
    def places(self) -> int:
        """Requests that may be in flight now, besides one for every lane with a place of its own."""
        return self._places

    @property
    def taken(self) -> int:
        """Places that are taken now."""
        return self._taken

    def _answered(self, *, busy: bool) -> None:
        now = asyncio.get_running_loop().time()
        if busy:
            if now - self._halved >= STEP_SECONDS:
                self._places = max(1, self._places // 2)
                self._halved = now
            self._changed = now
        elif self._places < self._ceiling and now - self._changed >= STEP_SECONDS:
            self._places += 1
            self._changed = now

    def _admit(self) -> None:
        """Give what is free to those who wait: one to each lane, and again."""
        while self._line and self._taken < self._places:
            lane = self._line.popleft()
            if lane._next_goes():
                self._line.append(lane)
            else:
                lane._in_line = False

    async def _take_token(self, within: float) -> None:
        """Tokens are handed out by the time at which each falls due, so that order and rate need no clock tick."""
        now = asyncio.get_running_loop().time()
        due = max(self._next_token, now - self._saved)
        if due - now > within:
            raise NoTurn
        self._next_token = due + self._interval
        if due > now:
            await asyncio.sleep(due - now)  # until the token is there


class Lane:
    """A way through a throttle; every `enter` needs its `leave`. Within a lane, first come, first served.

    With a place of its `own`, one request of the lane is always let through: answers that others wait for keep
    nobody waiting, however many they are. What goes beyond that waits for the places that all share, and there every
    lane has its turn.
    """

    def __init__(self, throttle: Throttle, *, own: int = 0) -> None:
        self._throttle, self._own = throttle, own
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._in_line = False

    async def enter(self, within: float = math.inf) -> None:
        """Wait for a turn. When cancelled meanwhile, no turn was taken and no `leave` is due.

        Raises NoTurn at once where the rate alone puts the turn off for more than `within` seconds: so the number of
        those who wait for a token is bounded.
        """
        throttle = self._throttle
        if throttle._interval:
            await throttle._take_token(within)
        if self._in_flight < self._own or throttle._taken < throttle._places:  # then nobody waits for it: see `leave`
            self._go()
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        if not self._in_line:
            self._in_line = True
            throttle._line.append(self)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the turn was given at the very moment of the cancellation
                self._give_back()
            raise

    def leave(self, *, busy: bool = False) -> None:
        """The request is over. `busy`: the server answered 429."""
        self._throttle._answered(busy=busy)
        self._give_back()

    def _go(self) -> None:
        self._in_flight += 1
        if self._in_flight > self._own:
            self._throttle._taken += 1

    def _give_back(self) -> None:
        if self._in_flight > self._own:
            self._throttle._taken -= 1
        self._in_flight -= 1
        if self._in_flight < self._own:
            self._next_goes()
        self._throttle._admit()

    def _next_goes(self) -> bool:
        """Let the first of those go who wait in this lane. False: nobody waits."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # else cancelled
                self._go()
                turn.set_result(None)
                return True
        return False
