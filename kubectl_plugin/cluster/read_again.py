"""What is not watched, but read as a whole: when something tells that it may be another, and now and then."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from controller.kube.errors import ApiError
from kubectl_plugin.cluster.upkeep import Watched, comes


class ReadAgain(Watched):
    """`read` is called again soon after each `doubt`, and every so many seconds without one."""

    def __init__(
        self,
        read: Callable[[], Awaitable[None]],
        *,
        every: float,
        bunch: float,
        dispensable: bool = False,
    ) -> None:
        """`bunch`: seconds after a doubt in which others are likely to come, for which one read does.

        `dispensable`: nothing ends though it cannot be read for long.
        """
        self.every = every
        """Seconds; what is read may say for how many."""
        self._read, self._bunch, self._dispensable = read, bunch, dispensable
        self._doubted = asyncio.Event()

    def doubt(self) -> None:
        self._doubted.set()

    async def refresh(self) -> None:
        self._doubted.clear()  # what changes during the read may be missing in it
        await self._read()

    async def watch(self) -> None:
        if await comes(self._doubted, self.every):
            await asyncio.sleep(self._bunch)  # all of the bunch is read once
        self.stale = True

    def refused(self, error: ApiError) -> None:
        if not self._dispensable:
            raise error
