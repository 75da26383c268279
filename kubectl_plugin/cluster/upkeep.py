"""Keeps objects up to date by watching them, and by reading them again when a watch has lost track.

The controller's reflector does not fit a command: it never gives up, needs the right to watch, and lists. A command
ends where a right is missing for good, reads at intervals what it may not watch, and says what does not work.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import Enum, auto
from typing import Final

from controller.kube.errors import ApiError, Forbidden, WatchVerdict, classify
from kubectl_plugin.cluster.retrying_reads import PATIENCE, POLL, read_with_patience
from kubectl_plugin.cluster.side_by_side import scope

MIN_INTERVAL: Final = 0.25
"""The least number of seconds between two drawings."""
PAUSE_FACTOR: Final = 4.0
"""The pause before the next read, as a multiple of the time that the last one took: a slow server is asked less
often."""
FIRST_PAUSE: Final = 1.0
"""Seconds before the next attempt after a first failure; each further failure doubles them."""
LONGEST_PAUSE: Final = 30.0
"""The most seconds before the next attempt."""
PERMANENT: Final = (WatchVerdict.NOT_SERVED, WatchVerdict.FORBIDDEN, WatchVerdict.UNAUTHORIZED)
"""Errors that only an administrator can end."""
WORKING_SECONDS: Final = 5.0
"""Seconds after which a watch that ends counts as one that has worked, so that the next one begins at once."""


class State(Enum):
    """How much is known of something that is kept up to date. The methods of `Watched` go from one to another:

    =======  ==========================================================  =======  ============
    from     when                                                        to       by
    =======  ==========================================================  =======  ============
    STALE    it was read                                                 CURRENT  `mark_read`
    CURRENT  its watch failed or lost track, or it is time to read it    STALE    `lose_track`
    any      it was deleted, or can be done without and not be read      OVER     `end`
    OVER     anything                                                    OVER
    =======  ==========================================================  =======  ============
    """

    STALE = auto()
    """It has to be read before its changes can be followed. This is the first state, unless the caller has just read
    it."""
    CURRENT = auto()
    """It was read, and its changes are followed."""
    OVER = auto()
    """It will never change again."""


class Watched(ABC):
    """An object, or a list of them, that `Upkeep` keeps up to date. Its attributes have the present values."""

    state = State.STALE

    @property
    def over(self) -> bool:
        return self.state is State.OVER

    def mark_read(self) -> None:
        """Tell that the state on the server has just been read."""
        self._go_to(State.CURRENT)

    def lose_track(self) -> None:
        """Tell that changes may have been missed, so that it has to be read again."""
        self._go_to(State.STALE)

    def end(self) -> None:
        """Tell that it will never change again."""
        self._go_to(State.OVER)

    def _go_to(self, state: State) -> None:
        if not self.over:
            self.state = state

    @abstractmethod
    async def refresh(self) -> None:
        """Read the present state. Raises ApiError."""

    @abstractmethod
    async def watch(self) -> None:
        """Follow the changes after the last known version, until the server ends the stream. What cannot be followed
        waits until it may have changed, and calls `lose_track`. Raises ApiError."""

    def on_refusal(self, error: ApiError) -> None:
        """Called when `refresh` has failed for good. Raises `error`, or returns where its state is not essential."""
        raise error

    async def begin(self, tell: Callable[[str], None]) -> None:
        """Read it for the first time. A failure is retried for `PATIENCE` seconds, and `tell` is told of it once.

        Raises ApiError.
        """
        try:
            await read_with_patience(self.refresh, tell)
        except Forbidden as error:
            self.on_refusal(error)
        self.mark_read()


class Upkeep:
    """Keeps several `Watched` up to date together, and wakes who waits for a change of any of them."""

    bunch = 0.0
    """Seconds for which changes are collected before `changed` returns."""

    def __init__(self) -> None:
        self._news = asyncio.Event()
        self._seen = 0.0
        self._interruptions: dict[Watched, str] = {}
        self._refused: dict[Watched, float] = {}

    @property
    def interruption(self) -> str:
        """What does not work at the moment, in words; empty if all works."""
        return next(iter(self._interruptions.values()), "")

    async def changed(self, seconds: float, *, apart: float = MIN_INTERVAL) -> None:
        """Wait for the next change, at most `seconds`. Two changes are told at least `apart` seconds apart."""
        if not await is_set_within(self._news, seconds):
            return
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(self._seen + apart - loop.time(), self.bunch))  # a screen is not drawn for each event
        self._seen = loop.time()
        self._news.clear()

    @asynccontextmanager
    async def keeping(self, *watched: Watched) -> AsyncIterator[None]:
        """Keep them up to date while the block runs. An error that ends one of them is raised by itself, in the
        block."""
        async with scope() as group:
            tasks = [group.create_task(self.keep(one)) for one in watched]
            yield
            for task in tasks:
                task.cancel()

    async def keep(self, watched: Watched) -> None:
        """Keep it up to date until it is over, or the task is cancelled. Raises what `watched.on_refusal` raises."""
        loop = asyncio.get_running_loop()
        pause, polls = FIRST_PAUSE, False
        while not watched.over:
            began = loop.time()
            try:
                if watched.state is State.STALE:
                    await watched.refresh()
                    self._note_success(watched)
                if polls:
                    await asyncio.sleep(max(POLL, PAUSE_FACTOR * (loop.time() - began)))  # it may not be watched
                    watched.lose_track()
                else:
                    await watched.watch()
                if watched.state is not State.CURRENT:
                    pause = FIRST_PAUSE
                    continue
            except ApiError as error:
                meaning = classify(error).watch
                if meaning is WatchVerdict.FORBIDDEN and watched.state is not State.STALE:
                    polls = True
                    continue
                watched.lose_track()
                if meaning is not WatchVerdict.EXPIRED and not self._may_pass(watched, error):
                    watched.on_refusal(error)
            if loop.time() - began >= WORKING_SECONDS:
                pause = FIRST_PAUSE
            else:
                await asyncio.sleep(pause)  # after a failure, or a watch that ended at once
                pause = min(pause * 2, LONGEST_PAUSE)

    def _note_success(self, watched: Watched) -> None:
        watched.mark_read()
        self._interruptions.pop(watched, None)
        self._refused.pop(watched, None)

    def _may_pass(self, watched: Watched, error: ApiError) -> bool:
        """Whether to try again. An error that only an administrator can end is retried for `PATIENCE` seconds."""
        self._interruptions[watched] = str(error)
        now = asyncio.get_running_loop().time()
        return classify(error).watch not in PERMANENT or now - self._refused.setdefault(watched, now) < PATIENCE


async def is_set_within(event: asyncio.Event, seconds: float) -> bool:
    """Whether `event` is set now, or within so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
