"""State that is not watched but read as a whole: at intervals, and when something tells that it may have changed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from controller.kube.errors import ApiError
from kubectl_plugin.cluster.upkeep import Watched, is_set_within


class ReadAgain(Watched):
    """Calls `read` again soon after each `mark_stale`, and after `every` seconds without one."""

    def __init__(
        self,
        read: Callable[[], Awaitable[None]],
        *,
        every: float,
        bunch: float,
        dispensable: bool = False,
    ) -> None:
        """`bunch`: seconds that a read waits after a doubt, so that further doubts share it.

        `dispensable`: whether a command goes on with the last state where reading has failed for good.
        """
        self.every = every
        """Seconds between two reads without a doubt; `read` may set another number."""
        self._read, self._bunch, self._dispensable = read, bunch, dispensable
        self._stale = asyncio.Event()

    def mark_stale(self) -> None:
        """Tell that the state may have changed."""
        self._stale.set()

    async def refresh(self) -> None:
        self._stale.clear()  # what changes during the read may be missing in it
        await self._read()

    async def watch(self) -> None:
        if await is_set_within(self._stale, self.every):
            await asyncio.sleep(self._bunch)  # all of the bunch is read once
        self.lose_track()

    def on_refusal(self, error: ApiError) -> None:
        if not self._dispensable:
            raise error
