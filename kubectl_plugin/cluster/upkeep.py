"""Keeps something up to date by watching it, and by reading it anew when the watch has lost track.

Not by the controller's reflector, which goes on for ever, needs the right to watch, and lists what may only be got: a
command ends where a right is missing for good, reads now and then what it may not watch, and says what does not work.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from controller.kube.errors import ApiError, Forbidden, Gone
from controller.kube.meaning import ForRead, meaning_of
from kubectl_plugin.cluster.side_by_side import scope

T = TypeVar("T")

APART: Final = 0.25
"""Seconds between two looks at the least."""
POLL: Final = 2.0
"""Seconds between two reads where watching is forbidden."""
REST: Final = 4.0
"""So many times as long as a read took is the pause before the next one."""
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 30.0
LASTING: Final = (ForRead.MISSING, ForRead.FORBIDDEN, ForRead.NO_ENTRY)
PATIENCE: Final = 30.0
"""Seconds for which these may come from somebody else on the way, such as a load balancer."""
LASTED: Final = 5.0
"""Seconds that a watch must have lasted to count as one that works."""


def from_between(error: ApiError) -> bool:
    """Whether somebody on the way has answered, such as a load balancer: the server itself gives a reason."""
    return error.status != 0 and not error.reason


def right_is_missing(error: ApiError) -> bool:
    """The server's own word: it stays so until an administrator comes."""
    return isinstance(error, Forbidden) and not from_between(error)


async def at_last(
    read: Callable[[], Awaitable[T]],
    tell: Callable[[str], None],
    passes: Callable[[ApiError], bool] = lambda error: not right_is_missing(error),
) -> T:
    """What `read` gives, tried again while `passes` says so, `PATIENCE` at the most. Raises ApiError.

    `tell` is told once why it is.
    """
    loop = asyncio.get_running_loop()
    until, told = loop.time() + PATIENCE, False
    while True:
        try:
            return await read()
        except ApiError as error:
            if not passes(error) or loop.time() >= until:
                raise
            if not told:
                tell(f"{error}; trying on")
            told = True
        await asyncio.sleep(POLL)  # after a failure


async def comes(event: asyncio.Event, seconds: float) -> bool:
    """Whether it is set within so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


class Watched(ABC):
    """What `Upkeep.keep` keeps up to date."""

    over = False
    """Nothing will happen to it any more."""

    @abstractmethod
    async def refresh(self) -> None:
        """Read it anew. Raises ApiError."""

    @abstractmethod
    async def watch(self) -> None:
        """Take in what happens from the last known version on, until the server ends the stream. Raises ApiError."""

    def refused(self, error: ApiError) -> None:
        """What `refresh` raises does not pass. Raises it, or does without."""
        raise error

    async def begin(self, tell: Callable[[str], None]) -> None:
        """Read it for the first time: what fails for a moment does not end what was only begun. Raises ApiError."""
        try:
            await at_last(self.refresh, tell)
        except Forbidden as error:
            self.refused(error)


class Upkeep:
    """What is kept up to date together; each read is known by a key of its own."""

    def __init__(self) -> None:
        self._news = asyncio.Event()
        self._interruptions: dict[object, str] = {}
        self._refused: dict[object, float] = {}

    @property
    def interruption(self) -> str:
        """What does not work at the moment, in words."""
        return next(iter(self._interruptions.values()), "")

    def failed(self, key: object, error: ApiError) -> None:
        self._interruptions[key] = str(error)

    def works(self, key: object) -> None:
        self._interruptions.pop(key, None)
        self._refused.pop(key, None)

    def passes(self, key: object, error: ApiError) -> bool:
        """Whether it is worth trying on: what only an administrator can mend is waited for a while."""
        self.failed(key, error)
        now = asyncio.get_running_loop().time()
        return meaning_of(error).read not in LASTING or now - self._refused.setdefault(key, now) < PATIENCE

    async def keep(self, watched: Watched) -> None:
        """Until it is over, or cancelled. Raises what `watched` does not do without."""
        loop = asyncio.get_running_loop()
        stale = polls = False
        pause = FIRST_PAUSE
        while not watched.over:
            began = loop.time()
            try:
                if stale:
                    await watched.refresh()
                    self.works(watched)
                    stale = False
                if polls:
                    stale = True
                    await asyncio.sleep(max(POLL, REST * (loop.time() - began)))  # it may not be watched
                    continue
                await watched.watch()
            except Gone:
                stale = True
            except ApiError as error:
                if isinstance(error, Forbidden) and not stale:
                    polls = True
                    continue
                stale = True
                if not self.passes(watched, error):
                    watched.refused(error)
            if loop.time() - began >= LASTED:
                pause = FIRST_PAUSE
            else:
                await asyncio.sleep(pause)  # after a failure, or a watch that ended at once
                pause = min(pause * 2, LONGEST_PAUSE)


@asynccontextmanager
async def going_on(*upkeep: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """While the block runs. Its first error is raised as it is, in the block."""
    async with scope() as group:
        tasks = [group.create_task(one) for one in upkeep]
        yield
        for task in tasks:
            task.cancel()
