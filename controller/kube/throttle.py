"""Bounds how many requests may be under way at once, and how many may start in a second."""

from __future__ import annotations

import asyncio
import math
from collections import deque


class NoPermit(TimeoutError):
    """The permit would come too late to be of use. None was taken."""


CEILING = 50
"""Shared permits at most. With more than some tens of requests, an API server only queues them."""
STEP_SECONDS = 1.0
"""After so many seconds without a 429 there is one more permit; several 429s within that time count as one."""


class Throttle:
    """The permits for requests that all lanes share. A request comes to them by its `Lane`.

    The number of permits follows the server: halved when it answers 429, one more for every second without a 429
    (additive increase, multiplicative decrease), between 1 and `ceiling`. With `qps` > 0 there is also a token bucket
    of `burst` tokens (at least 1), filled at `qps` a second; 0 means no such limit. Why there is none by default:
    docs/design/decisions.md#the-process.

    Watches take no permit, because they last. The Lease, which must never wait behind others, has a throttle of its
    own.
    """

    def __init__(self, *, ceiling: int = CEILING, qps: float = 0.0, burst: int = 0) -> None:
        self._ceiling = self.permits = ceiling
        """Requests that may be under way now, besides one for every lane with a permit of its own."""
        self.taken = 0
        """Permits that are taken now."""
        self._line: deque[Lane] = deque()
        """Lanes in which a request waits, each once; a lane in which none waits any more may be here too."""
        self._changed = self._halved = float("-inf")
        self._interval = 1.0 / qps if qps > 0 else 0.0
        self._saved = self._interval * (max(burst, 1) - 1)
        self._next_token = float("-inf")

    def _answered(self, *, busy: bool) -> None:
        now = asyncio.get_running_loop().time()
        if busy:
            if now - self._halved >= STEP_SECONDS:
                self.permits = max(1, self.permits // 2)
                self._halved = now
            self._changed = now
        elif self.permits < self._ceiling and now - self._changed >= STEP_SECONDS:
            self.permits += 1
            self._changed = now

    def _admit(self) -> None:
        """Give free permits to waiting requests: one to each lane, then again from the first."""
        while self._line and self.taken < self.permits:
            lane = self._line.popleft()
            if lane._next_goes():
                self._line.append(lane)
            else:
                lane._in_line = False

    async def _take_token(self, within: float) -> None:
        """Take the next token. Tokens are given out by the time at which each is due, so that order and rate need no
        timer. Raises NoPermit if that is more than `within` seconds ahead."""
        now = asyncio.get_running_loop().time()
        due = max(self._next_token, now - self._saved)
        if due - now > within:
            raise NoPermit
        self._next_token = due + self._interval
        if due > now:
            await asyncio.sleep(due - now)  # until the token is there


class Lane:
    """One queue in front of a throttle; every `enter` needs its `leave`. Within a lane, requests go in the order of
    arrival.

    With a permit of its own (`own` is 1), a lane may always have one request under way, so that long waits for
    answers in one lane delay no other lane. Its further requests wait for the shared permits, which the lanes get in
    turn.
    """

    def __init__(self, throttle: Throttle, *, own: int = 0) -> None:
        self._throttle, self._own = throttle, own
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._in_line = False

    async def enter(self, within: float = math.inf) -> None:
        """Wait for a turn. When this is cancelled, no turn was taken and no `leave` is due.

        Raises NoPermit at once if the rate alone delays the turn for more than `within` seconds; this bounds how many
        requests wait for a token.
        """
        throttle = self._throttle
        if throttle._interval:
            await throttle._take_token(within)
        if self._in_flight < self._own or throttle.taken < throttle.permits:  # then none waits: see `leave`
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
        """The request has ended. `busy`: the server answered 429."""
        self._throttle._answered(busy=busy)
        self._give_back()

    def _go(self) -> None:
        self._in_flight += 1
        if self._in_flight > self._own:
            self._throttle.taken += 1

    def _give_back(self) -> None:
        if self._in_flight > self._own:
            self._throttle.taken -= 1
        self._in_flight -= 1
        if self._in_flight < self._own:
            self._next_goes()
        self._throttle._admit()

    def _next_goes(self) -> bool:
        """Let the request that has waited longest in this lane go. False: none waits."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # else cancelled
                self._go()
                turn.set_result(None)
                return True
        return False
