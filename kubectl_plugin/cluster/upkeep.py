"""Keeps something up to date by watching it, and by reading it anew when the watch has lost track."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final, Protocol, TypeVar

from controller.kube.errors import ApiError, Forbidden, Gone, Unauthorized

T = TypeVar("T")

POLL: Final = 2.0
"""Seconds between two reads where watching is forbidden."""
REST: Final = 4.0
"""So many times as long as a read took is the pause before the next one."""
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 30.0
LASTED: Final = 5.0
"""Seconds that a watch must have lasted to count as one that works."""


class Watched(Protocol):
    name: str
    """For people."""

    @property
    def over(self) -> bool:
        """Nothing will happen to it any more."""
        ...

    async def refresh(self) -> None:
        """Read it anew. Raises ApiError."""
        ...

    async def watch(self) -> None:
        """Take in what happens from the last known version on, until the server ends the stream. Raises ApiError."""
        ...


class Upkeep:
    """`trouble`: what does not work at the moment, in words."""

    def __init__(self) -> None:
        self._troubles: dict[str, str] = {}

    @property
    def trouble(self) -> str:
        return next(iter(self._troubles.values()), "")

    def failed(self, name: str, error: ApiError) -> None:
        self._troubles[name] = str(error)

    def works(self, name: str) -> None:
        self._troubles.pop(name, None)

    async def tried(self, name: str, read: Awaitable[T]) -> T | None:
        """What `read` gives; None where it failed in a way that passes. Raises Unauthorized and Forbidden."""
        try:
            found = await read
        except (Unauthorized, Forbidden):
            raise
        except ApiError as error:
            self.failed(name, error)
            return None
        self.works(name)
        return found

    async def keep(self, watched: Watched) -> None:
        """Until it is over, or cancelled. Raises Unauthorized, and Forbidden when it may not even be read."""
        loop = asyncio.get_running_loop()
        stale = polls = False
        pause = FIRST_PAUSE
        while not watched.over:
            began = loop.time()
            try:
                if stale:
                    await watched.refresh()
                    self.works(watched.name)
                    stale = False
                if polls:
                    stale = True
                    await asyncio.sleep(max(POLL, REST * (loop.time() - began)))
                    continue
                await watched.watch()
            except Unauthorized:
                raise
            except Forbidden:
                if stale:
                    raise
                polls = True
                continue
            except Gone:
                stale = True
            except ApiError as error:
                stale = True
                self.failed(watched.name, error)
            if loop.time() - began >= LASTED:
                pause = FIRST_PAUSE
            else:
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
