"""Makes the text for scrapers: at most once a second, however many ask, and in short steps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias

from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder

OPENMETRICS = "application/openmetrics-text"
LARGE = 1000
"""Samples. Larger pages are encoded in a thread, not on the event loop."""


ExposedMetrics: TypeAlias = tuple[bytes, str]
"""The text, and its content type."""


@asynccontextmanager
async def exposing(families: Callable[[], Iterator[Metric]]) -> AsyncIterator[Exposition]:
    """Make pages while the block runs."""
    exposition = Exposition(families)
    async with asyncio.TaskGroup() as group:
        making = group.create_task(exposition.make(), name="pages")
        yield exposition
        making.cancel()


class Exposition:
    """A page shows the state after it was requested. All requests that arrive before a page is begun get that page.

    At most one page is begun in each second of the loop's clock. The metrics are read on the event loop, where queues
    and caches may be read, and other tasks run in between.
    """

    def __init__(self, families: Callable[[], Iterator[Metric]]) -> None:
        self._families = families
        self._pages: dict[bool, asyncio.Future[ExposedMetrics]] = {}
        """Pages that are requested and not begun yet; key: whether in the format OpenMetrics."""
        self._asked = asyncio.Event()

    async def __call__(self, accept: str) -> ExposedMetrics:
        """The page for this `Accept` header."""
        modern = OPENMETRICS in accept
        if modern not in self._pages:
            self._pages[modern] = asyncio.get_running_loop().create_future()
            self._asked.set()
        return await asyncio.shield(self._pages[modern])  # when one who waits is cancelled, others still wait

    async def make(self) -> None:
        """Make page after page, for all who have asked by then."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                await self._asked.wait()
                self._asked.clear()
                second = int(loop.time())
                pages, self._pages = self._pages, {}
                await self._fill(pages)
                await asyncio.sleep(second + 1 - loop.time())  # at most one page a second, however many ask
        finally:
            for page in self._pages.values():
                page.cancel()  # no page is made any more

    async def _fill(self, pages: Mapping[bool, asyncio.Future[ExposedMetrics]]) -> None:
        try:
            found = []
            for family in self._families():
                found.append(family)
                await asyncio.sleep(0)  # other tasks may run
            large = sum(len(family.samples) for family in found) >= LARGE
            for modern, page in pages.items():
                page.set_result(await asyncio.to_thread(encoded, found, modern) if large else encoded(found, modern))
        except Exception as error:  # only these pages fail, not the next ones
            for page in pages.values():
                if not page.done():
                    page.set_exception(error)


def encoded(families: Sequence[Metric], modern: bool = False) -> ExposedMetrics:
    """The text and its content type: OpenMetrics if `modern`, else the format of Prometheus."""
    encode, content_type = choose_encoder(OPENMETRICS if modern else "")
    return encode(_Read(families)), content_type


class _Read:
    """The metrics in the form of a registry, as the encoders expect."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families
