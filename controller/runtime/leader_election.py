"""The last fence: it ends a process whose event loop is blocked while its Lease runs out.

A loop that does not run cannot notice that it has lost the leadership, and would go on writing when it wakes up. A
thread notices: after the deadline of the leader, and before anybody else may take the Lease (`Timing.fence`).

How one process wins, keeps and gives back the Lease.

The scope in which this process leads: entering waits for the Lease, leaving gives it back.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from typing import NoReturn, TypeVar

from controller.kube.errors import ApiError, redacted
from controller.runtime.clock import Clock
from controller.runtime.lease import (
    Create,
    LeadershipLost,
    Lease,
    LeaseAPI,
    LeaseMove,
    Timing,
    Wait,
    held,
    leads_from,
    next_move,
    released,
)


def end_process(sentence: str) -> None:
    """Print `sentence` on standard error and exit with 1 at once: no handlers, no `finally`, no blocking."""
    os.write(2, f"{sentence}\n".encode())
    os._exit(1)


class Watchdog:
    """Calls `bite` once, in its own thread, when `hold` was not called for longer than agreed.

    It uses real time: leave it out under a virtual clock.
    """

    def __init__(self, bite: Callable[[str], None] = end_process) -> None:
        self._bite = bite
        self._turn = threading.Condition()
        self._deadline = 0.0
        self._guarding = False

    def hold(self, seconds: float) -> None:
        """All is well: bite no sooner than `seconds` from now."""
        with self._turn:
            self._deadline = time.monotonic() + seconds

    @contextmanager
    def guarding(self) -> Iterator[None]:
        """Watch while the block runs. Call `hold` before entering."""
        self._guarding = True
        thread = threading.Thread(target=self._watch, name="leader-watchdog", daemon=True)
        thread.start()
        try:
            yield
        finally:
            with self._turn:
                self._guarding = False
                self._turn.notify()
            thread.join()

    def _watch(self) -> None:
        with self._turn:
            while self._guarding:
                left = self._deadline - time.monotonic()
                if left <= 0:
                    break
                self._turn.wait(left)
            if not self._guarding:
                return
        self._bite("kruise-ds-controller: the event loop was blocked past the leader lease; ending the process")


T = TypeVar("T")

RACE_PAUSE = 0.1
"""Pause after another candidate was quicker, as a share of `Timing.retry`."""

JITTER = 0.2
"""At most this share is added to a pause, at random, so that two candidates do not keep colliding."""


class Leadership:
    """Whether this process may write. Ask before every write: the process may have been frozen since the last."""

    def __init__(self) -> None:
        self.deadline = float("-inf")
        """The event loop's time until which we may write, counted from when the last renewal was sent. Only
        `Election` sets it."""

    def is_valid(self) -> bool:
        return asyncio.get_running_loop().time() < self.deadline

    def require(self) -> None:
        """Raises `LeadershipLost` when this process may not write any more."""
        if not self.is_valid():
            raise LeadershipLost("the lease was not renewed in time; nothing is written any more")


class Election:
    """Follows the Lease for one process, and wins, keeps and releases it. Only `leadership` uses it."""

    def __init__(
        self,
        api: LeaseAPI,
        identity: str,
        clock: Clock,
        say: Callable[[str], None],
        watchdog: Watchdog | None,
    ) -> None:
        self._api, self._identity, self._clock, self._timing = api, identity, clock, Timing()
        self._say, self._watchdog = say, watchdog
        self._lease: Lease | None = None
        self._seen_at: float | None = None
        """Since when the Lease has been as we see it (loop time); None: it was not read yet."""
        self._leads_from = float("-inf")
        """The loop time from which we lead by a Lease that we have created; see `leads_from`."""
        self._takes = False
        """Whether a write was begun after which the Lease may be ours."""
        self._said = ""
        self.leadership = Leadership()

    async def win(self) -> None:
        """Wait until the Lease is ours."""
        loop, up_to_date = asyncio.get_running_loop(), False
        while True:
            try:
                if not up_to_date:
                    self._see(await self._bounded(self._api.get_lease()))
                up_to_date = False
                move = self._move()
                if isinstance(move, Wait):
                    up_to_date = await self._until_free(move.seconds)
                    continue
                if isinstance(move, Create):
                    self._leads_from = leads_from(loop.time(), self._timing)
                up_to_date = await self._write()
                if self.leadership.is_valid():
                    return
                if up_to_date:  # ours; but if a Lease was deleted, its holder may not know yet
                    await asyncio.sleep(min(self._timing.retry, max(0.0, self._leads_from - loop.time())))
                else:
                    await self._pause(RACE_PAUSE)
            except (ApiError, OSError) as error:
                self._tell("cannot reach the leader lease, retrying", error)
                await self._pause(1.0)

    async def keep(self) -> None:
        """Renew the Lease for ever. Raises `LeadershipLost` at the deadline, or when another one holds the Lease."""
        loop, retry = asyncio.get_running_loop(), self._timing.retry
        pause, because = retry, ""
        while True:  # a renewal is due by the clock, whatever happens
            await asyncio.sleep(min(pause, max(0.0, self.leadership.deadline - loop.time())))
            if not self.leadership.is_valid():
                self._lose(f"the lease was not renewed for {self._timing.renew_deadline:g} s{because}")
            began, pause = loop.time(), retry
            try:
                if await self._write():
                    because = ""
                else:
                    await self._see_if_still_ours()
                    pause = RACE_PAUSE * retry
            except (ApiError, OSError) as error:
                because = f": {_words(error)}"
                self._tell("renewing the leader lease fails, retrying", error)
                pause = max(0.0, began + retry - loop.time())

    async def release(self) -> None:
        """Give the Lease back, in bounded time, without raising: others take an unreleased Lease too, only later."""
        try:
            for _ in range(2):  # twice: the version may be that of a renewal whose answer we did not see
                if self._lease is None or not self.leadership.is_valid():
                    break
                spec = released(self._lease.spec, self._clock())
                if await self._bounded(self._api.update_lease(spec, self._lease.version)):
                    self._tell("the leader lease is released")
                    break
                await self._see_if_still_ours()
        except (ApiError, OSError, LeadershipLost) as error:
            self._tell("the leader lease was not released", error)
        finally:
            self.leadership.deadline = float("-inf")

    async def withdraw(self) -> None:
        """After `win` was cancelled: give the Lease back if it has become ours meanwhile, in bounded time, without
        raising. A Lease that we have made is left alone while somebody may hold one that was deleted."""
        if not self._takes or asyncio.get_running_loop().time() < self._leads_from:
            return
        with suppress(ApiError, OSError):
            lease = await self._bounded(self._api.get_lease())
            if lease is not None and lease.spec.holder_identity == self._identity:
                await self._bounded(self._api.update_lease(released(lease.spec, self._clock()), lease.version))

    async def _until_free(self, seconds: float) -> bool:
        """Watch the Lease until it may be taken. False: `seconds` are over or the watch has ended; read it again."""
        lease, loop = self._lease, asyncio.get_running_loop()
        if lease is None:
            self._tell("standing by, there is no leader lease; if it was deleted, its holder may not know yet")
            await asyncio.sleep(min(seconds, self._timing.retry))  # afterwards it may be created
            return False
        self._tell(f"standing by, {lease.spec.holder_identity} leads")
        began = loop.time()
        try:
            async with asyncio.timeout(seconds) as limit, self._api.watch_lease(lease.version) as changes:
                async for change in changes:
                    self._see(change)
                    if change is None:
                        return False
                    move = self._move()
                    if not isinstance(move, Wait):
                        return True
                    limit.reschedule(loop.time() + move.seconds)
        except TimeoutError:
            return False
        except (ApiError, OSError):
            pass  # without a watch, read the Lease every now and then
        await self._pause(1.0 if loop.time() - began < self._timing.retry else RACE_PAUSE)
        return False

    async def _write(self) -> bool:
        """Write ourselves into the Lease, and lead by it unless we have just created it. False if it has changed."""
        loop, lease = asyncio.get_running_loop(), self._lease
        sent, self._takes = loop.time(), True
        spec = held(lease.spec if lease else None, self._identity, self._timing, self._clock())
        if lease is None:
            written = await self._bounded(self._api.create_lease(spec))
        else:
            written = await self._bounded(self._api.update_lease(spec, lease.version))
        if written is None:
            return False
        self._see(written)
        if sent < self._leads_from:
            self._tell("created the leader lease; waits until the holder of a deleted one must have stopped")
            return True
        self.leadership.deadline = sent + self._timing.renew_deadline
        if self._watchdog is not None:
            self._watchdog.hold(sent + self._timing.fence - loop.time())
        self._tell(f"{self._identity} leads")
        return True

    async def _see_if_still_ours(self) -> None:
        self._see(await self._bounded(self._api.get_lease()))
        if self._lease is not None and self._lease.spec.holder_identity != self._identity:
            self._lose(f"{self._lease.spec.holder_identity or 'nobody'} holds the lease now")

    def _lose(self, why: str) -> NoReturn:
        self.leadership.deadline = float("-inf")
        raise LeadershipLost(why)

    def _see(self, lease: Lease | None) -> None:
        before, self._lease = self._lease, lease
        if self._seen_at is None or (before and before.spec) != (lease and lease.spec):
            self._seen_at = asyncio.get_running_loop().time()

    def _move(self) -> LeaseMove:
        now = asyncio.get_running_loop().time()
        since = now if self._seen_at is None else self._seen_at
        return next_move(self._lease, since, self._identity, now, self._timing)

    async def _bounded(self, call: Awaitable[T]) -> T:
        """Await `call`, at most for the retry time and, while leading, until the deadline. Raises TimeoutError."""
        limit = self._timing.retry
        if self.leadership.is_valid():
            limit = min(limit, self.leadership.deadline - asyncio.get_running_loop().time())
        async with asyncio.timeout(limit):
            return await call

    async def _pause(self, share: float) -> None:
        """Sleep for this share of the retry time and a bit. Nothing tells when a server that failed answers again."""
        await asyncio.sleep(self._timing.retry * share * (1.0 + JITTER * random.random()))

    def _tell(self, state: str, error: Exception | None = None) -> None:
        if state != self._said:
            self._said = state
            self._say(state if error is None else f"{state}: {_words(error)}")


def _words(error: Exception) -> str:
    return "no answer in time" if isinstance(error, TimeoutError) else redacted(error)


@asynccontextmanager
async def leadership(
    api: LeaseAPI,
    identity: str,
    clock: Clock,
    *,
    say: Callable[[str], None],
    watchdog: Watchdog | None = None,
) -> AsyncIterator[Leadership]:
    """Lead while the block runs. `identity` must be unique to this process; a restarted process needs a new one.

    Entering waits for the Lease, for ever if need be. When the Lease is lost, the block is cancelled at once and
    `LeadershipLost` is raised. When the block ends in another way, the Lease is released, so that a standby takes
    over at once. `say` gets one sentence at each change of state.
    """
    election = Election(api, identity, clock, say, watchdog)
    try:
        await election.win()
    except asyncio.CancelledError:
        await election.withdraw()
        raise
    try:
        async with asyncio.TaskGroup() as group:
            renewing = group.create_task(election.keep(), name="lease")
            with nullcontext() if watchdog is None else watchdog.guarding():
                yield election.leadership
            renewing.cancel()
    except BaseExceptionGroup as errors:
        if lost := errors.subgroup(LeadershipLost):
            raise LeadershipLost(str(innermost(lost))) from errors
        raise
    finally:
        await election.release()


def innermost(error: BaseException) -> BaseException:
    """The first error in nested groups of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
