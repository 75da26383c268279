"""Keeps something up to date by watching it, and by reading it anew when the watch has lost track.

Not by the controller's reflector, which goes on for ever, needs the right to watch, and lists what may only be got: a
command ends where a right is missing for good, reads now and then what it may not watch, and says what does not work.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from controller.kube.errors import ApiError, Forbidden, Gone
from controller.kube.meaning import ForRead, meaning_of
from kubectl_plugin.cluster.patience import PATIENCE, POLL, at_last
from kubectl_plugin.cluster.side_by_side import scope

APART: Final = 0.25
"""Seconds between two looks at the least."""
REST: Final = 4.0
"""So many times as long as a read took is the pause before the next one."""
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 30.0
LASTING: Final = (ForRead.MISSING, ForRead.FORBIDDEN, ForRead.NO_ENTRY)
LASTED: Final = 5.0
"""Seconds that a watch must have lasted to count as one that works."""


class Watched(ABC):
    """What `Upkeep.keep` keeps up to date."""

    over = False
    """Nothing will happen to it any more."""
    stale = True
    """It has to be read before it is watched on: at first, and when the watch has lost track."""

    @abstractmethod
    async def refresh(self) -> None:
        """Read it anew. Raises ApiError."""

    @abstractmethod
    async def watch(self) -> None:
        """Take in what happens from the last known version on, until the server ends the stream; or wait until it may
        have changed, and be `stale`. Raises ApiError."""

    def refused(self, error: ApiError) -> None:
        """What `refresh` raises does not pass. Raises it, or does without."""
        raise error

    async def begin(self, tell: Callable[[str], None]) -> None:
        """Read it for the first time: what fails for a moment does not end what was only begun. Raises ApiError."""
        try:
            await at_last(self.refresh, tell)
        except Forbidden as error:
            self.refused(error)
        self.stale = False


class Upkeep:
    """What is kept up to date together, and whether there are news of it."""

    bunch = 0.0
    """Seconds in which news come together before they are told."""

    def __init__(self) -> None:
        self._news = asyncio.Event()
        self._seen = 0.0
        self._interruptions: dict[Watched, str] = {}
        self._refused: dict[Watched, float] = {}

    @property
    def interruption(self) -> str:
        """What does not work at the moment, in words."""
        return next(iter(self._interruptions.values()), "")

    async def changed(self, seconds: float, *, apart: float = APART) -> None:
        """Wait for news, at most so many seconds. There are none within `apart` seconds after the last."""
        if not await comes(self._news, seconds):
            return
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(self._seen + apart - loop.time(), self.bunch))  # a screen is not drawn for each event
        self._seen = loop.time()
        self._news.clear()

    @asynccontextmanager
    async def going_on(self, *watched: Watched) -> AsyncIterator[None]:
        """Keep them while the block runs. What one of them does not do without is raised as it is, in the block."""
        async with scope() as group:
            tasks = [group.create_task(self.keep(one)) for one in watched]
            yield
            for task in tasks:
                task.cancel()

    async def keep(self, watched: Watched) -> None:
        """Until it is over, or cancelled. Raises what `watched` does not do without."""
        loop = asyncio.get_running_loop()
        pause, polls = FIRST_PAUSE, False
        while not watched.over:
            began = loop.time()
            try:
                if watched.stale:
                    await watched.refresh()
                    self._works(watched)
                if polls:
                    await asyncio.sleep(max(POLL, REST * (loop.time() - began)))  # it may not be watched
                    watched.stale = True
                else:
                    await watched.watch()
                if watched.stale:
                    pause = FIRST_PAUSE
                    continue
            except Gone:
                watched.stale = True
            except ApiError as error:
                if isinstance(error, Forbidden) and not watched.stale:
                    polls = True
                    continue
                watched.stale = True
                if not self._passes(watched, error):
                    watched.refused(error)
            if loop.time() - began >= LASTED:
                pause = FIRST_PAUSE
            else:
                await asyncio.sleep(pause)  # after a failure, or a watch that ended at once
                pause = min(pause * 2, LONGEST_PAUSE)

    def _works(self, watched: Watched) -> None:
        watched.stale = False
        self._interruptions.pop(watched, None)
        self._refused.pop(watched, None)

    def _passes(self, watched: Watched, error: ApiError) -> bool:
        """Whether it is worth trying on: what only an administrator can mend is waited for a while."""
        self._interruptions[watched] = str(error)
        now = asyncio.get_running_loop().time()
        return meaning_of(error).read not in LASTING or now - self._refused.setdefault(watched, now) < PATIENCE


async def comes(event: asyncio.Event, seconds: float) -> bool:
    """Whether it is set within so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
