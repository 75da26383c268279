"""The text for scrapers: made once a second at the most, however many ask, and never in one long step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder

from controller.api.base import Value

OPENMETRICS = "application/openmetrics-text"
LARGE = 1000
"""Samples from which they are encoded beside the event loop."""


class ExposedMetrics(Value):
    text: bytes
    content_type: str
    began: float
    """When what it tells was read, by the loop's time."""


class Exposition:
    """Each asker gets what is the case after they have asked; whoever asks while another waits gets the same text.

    A page begins in each second of the loop's clock at the most. The families are read on the event loop, where queue
    and caches may be, with a turn for the others after each.
    """

    def __init__(self, families: Callable[[], Iterator[Metric]]) -> None:
        self._families = families
        self._making = asyncio.Lock()
        self._pages: dict[bool, ExposedMetrics] = {}
        self._second = -1
        """That in which the last page began."""

    async def __call__(self, accept: str) -> tuple[bytes, str]:
        """`accept`: the header of that name. Returns the text, and its content type."""
        modern, asked = OPENMETRICS in accept, asyncio.get_running_loop().time()
        async with self._making:
            page = self._pages.get(modern)
            if page is None or page.began <= asked:
                page = self._pages[modern] = await self._made(modern)
        return page.text, page.content_type

    async def _made(self, modern: bool) -> ExposedMetrics:
        loop = asyncio.get_running_loop()
        second = int(loop.time())
        if second <= self._second:
            second = self._second + 1
            await asyncio.sleep(second - loop.time())  # one page a second at the most
        self._second, began = second, loop.time()
        found = []
        for family in self._families():
            found.append(family)
            await asyncio.sleep(0)  # the others' turn
        if sum(len(family.samples) for family in found) < LARGE:
            text, content_type = encoded(found, modern)
        else:
            text, content_type = await asyncio.to_thread(encoded, found, modern)
        return ExposedMetrics(text=text, content_type=content_type, began=began)


def encoded(families: Sequence[Metric], modern: bool = False) -> tuple[bytes, str]:
    """The text and its content type: of OpenMetrics where it is to be `modern`, else Prometheus' own."""
    encode, content_type = choose_encoder(OPENMETRICS if modern else "")
    return encode(_Read(families)), content_type


class _Read:
    """What the encoders take for a registry."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families
