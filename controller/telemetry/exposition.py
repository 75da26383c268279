"""The text for scrapers: made once a second at the most, however many ask, and never in one long step."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias

from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder

OPENMETRICS = "application/openmetrics-text"
LARGE = 1000
"""Samples from which they are encoded beside the event loop."""


ExposedMetrics: TypeAlias = tuple[bytes, str]
"""The text, and its content type."""


@asynccontextmanager
async def exposing(families: Callable[[], Iterator[Metric]]) -> AsyncIterator[Exposition]:
    """Pages are made while the block runs."""
    exposition = Exposition(families)
    async with asyncio.TaskGroup() as group:
        making = group.create_task(exposition.make(), name="pages")
        yield exposition
        making.cancel()


class Exposition:
    """Each asker gets what is the case after they have asked; whoever asks while another waits gets the same page.

    A page begins in each second of the loop's clock at the most. The families are read on the event loop, where queue
    and caches may be, with a turn for the others after each.
    """

    def __init__(self, families: Callable[[], Iterator[Metric]]) -> None:
        self._families = families
        self._pages: dict[bool, asyncio.Future[ExposedMetrics]] = {}
        """Those that somebody waits for and that nobody makes yet: whether in OpenMetrics."""
        self._asked = asyncio.Event()

    async def __call__(self, accept: str) -> ExposedMetrics:
        """`accept`: the header of that name."""
        modern = OPENMETRICS in accept
        if modern not in self._pages:
            self._pages[modern] = asyncio.get_running_loop().create_future()
            self._asked.set()
        return await asyncio.shield(self._pages[modern])  # others may wait for it who do not go away

    async def make(self) -> None:
        """Page after page, for those who have asked by then."""
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
                page.cancel()  # nobody makes another one

    async def _fill(self, pages: Mapping[bool, asyncio.Future[ExposedMetrics]]) -> None:
        try:
            found = []
            for family in self._families():
                found.append(family)
                await asyncio.sleep(0)  # the others' turn
            for modern, page in pages.items():
                page.set_result(await _encoded_apart(found, modern))
        except Exception as error:  # theirs, and not the end of all pages
            for page in pages.values():
                if not page.done():
                    page.set_exception(error)


async def _encoded_apart(families: Sequence[Metric], modern: bool) -> ExposedMetrics:
    if sum(len(family.samples) for family in families) < LARGE:
        return encoded(families, modern)
    return await asyncio.to_thread(encoded, families, modern)


def encoded(families: Sequence[Metric], modern: bool = False) -> ExposedMetrics:
    """The text and its content type: of OpenMetrics where it is to be `modern`, else Prometheus' own."""
    encode, content_type = choose_encoder(OPENMETRICS if modern else "")
    return encode(_Read(families)), content_type


class _Read:
    """What the encoders take for a registry."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families
