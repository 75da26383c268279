"""How often the text for scrapers is made, and in which steps."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from prometheus_client.core import GaugeMetricFamily, Metric

from controller.observe.metrics import ENCODE_IN_THREAD_FROM, Exposition, exposing
from tests.beds.virtual_time import now, virtual_time_from


class Told:
    """Families that say when they were read."""

    def __init__(self, families: int = 3) -> None:
        self.number, self.begun, self.value = families, list[float](), 0.0
        self.fails = False
        self.exposition: Exposition | None = None

    @asynccontextmanager
    async def told(self) -> AsyncIterator[None]:
        async with exposing(self.families) as self.exposition:
            yield

    def families(self) -> Iterator[Metric]:
        self.begun.append(now())
        if self.fails:
            raise ZeroDivisionError
        for number in range(self.number):
            yield GaugeMetricFamily(f"family_{number}", "Some", value=self.value)

    async def scrape(self, accept: str = "") -> float:
        assert self.exposition is not None
        text, _ = await self.exposition(accept)
        return float(text.splitlines()[2].split()[1])


@virtual_time_from(1000.0)
async def test_however_many_ask_a_page_is_made_once_a_second() -> None:
    told = Told()
    async with told.told():

        async def looping() -> None:
            for count in range(10):
                await told.scrape("application/openmetrics-text" if count % 2 else "")

        await asyncio.gather(*(looping() for _ in range(60)))
        assert len({begun // 1 for begun in told.begun}) == len(told.begun)
        assert len(told.begun) <= 12, "one page is for all"


@virtual_time_from(1000.0)
async def test_a_scrape_tells_what_is_the_case_after_it_was_asked_for() -> None:
    told = Told()
    async with told.told():
        for value in (1.0, 2.0, 3.0):
            told.value = value
            assert await told.scrape() == value
        first = asyncio.ensure_future(told.scrape())
        await asyncio.sleep(0.1)
        second = asyncio.ensure_future(told.scrape())
        await asyncio.sleep(0.1)
        told.value = 4.0
        assert (await first, await second) == (4.0, 4.0), "one page for all who wait"
        assert len(told.begun) == 4


@virtual_time_from(1000.0)
async def test_who_asks_while_a_page_is_read_gets_the_next_one() -> None:
    told = Told()
    async with told.told():
        early = asyncio.ensure_future(told.scrape())
        while not told.begun:
            await asyncio.sleep(0)
        told.value = 1.0
        assert await told.scrape() == 1.0
        assert await early == 0.0


@virtual_time_from(1000.0)
async def test_what_cannot_be_read_once_fails_that_scrape_alone() -> None:
    told = Told()
    async with told.told():
        told.fails = True
        with pytest.raises(ZeroDivisionError):
            await told.scrape()
        told.fails = False
        assert await told.scrape() == 0.0


@virtual_time_from(1000.0)
async def test_whoever_seldom_asks_does_not_wait() -> None:
    told = Told()
    async with told.told():
        for _ in range(3):
            await asyncio.sleep(1.0)
            began = now()
            await told.scrape()
            assert now() == began


@virtual_time_from(1000.0)
async def test_a_scraper_that_goes_away_takes_nobody_elses_page_along() -> None:
    told = Told()
    async with told.told():
        await told.scrape()
        impatient, patient = (asyncio.ensure_future(told.scrape()) for _ in range(2))
        await asyncio.sleep(0.1)
        impatient.cancel()
        assert await patient == 0.0


@virtual_time_from(1000.0)
async def test_others_get_their_turn_between_two_metrics() -> None:
    told, turns = Told(families=20), 0
    async with told.told():
        asked = asyncio.ensure_future(told.scrape())
        while not asked.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns >= 20


class _Tells(float):
    """A value that notes which thread turns it into text."""

    threads: set[int]

    def __float__(self) -> float:
        self.threads.add(threading.get_ident())
        return 1.0


async def test_a_large_page_is_encoded_beside_the_loop() -> None:
    def families() -> Iterator[Metric]:
        family = GaugeMetricFamily("many", "Many", labels=["number"])
        for number in range(ENCODE_IN_THREAD_FROM):
            family.add_metric([str(number)], value)
        yield family

    value = _Tells(1.0)
    value.threads = set()
    async with exposing(families) as exposition:
        text, _ = await exposition("")
    assert len(text.splitlines()) == ENCODE_IN_THREAD_FROM + 2
    assert value.threads
    assert threading.get_ident() not in value.threads


@virtual_time_from(1000.0)
async def test_who_still_waits_at_the_end_is_let_go() -> None:
    told = Told()
    async with asyncio.timeout(60):
        async with told.told():
            await told.scrape()
            waiting = asyncio.create_task(told.scrape())
            await asyncio.sleep(0)
        await asyncio.wait([waiting])
    assert waiting.cancelled()
