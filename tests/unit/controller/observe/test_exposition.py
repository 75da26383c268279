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


class Families:
    """Families that record when they were read."""

    def __init__(self, families: int = 3) -> None:
        self.number, self.begun, self.value = families, list[float](), 0.0
        self.fails = False
        self.exposition: Exposition | None = None

    @asynccontextmanager
    async def exposed(self) -> AsyncIterator[None]:
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
async def test_at_most_one_page_is_made_in_a_second() -> None:
    source = Families()
    async with source.exposed():

        async def looping() -> None:
            for count in range(10):
                await source.scrape("application/openmetrics-text" if count % 2 else "")

        await asyncio.gather(*(looping() for _ in range(60)))
        assert len({begun // 1 for begun in source.begun}) == len(source.begun)
        assert len(source.begun) <= 12, "one page is for all"


@virtual_time_from(1000.0)
async def test_a_page_shows_the_state_after_its_request() -> None:
    source = Families()
    async with source.exposed():
        for value in (1.0, 2.0, 3.0):
            source.value = value
            assert await source.scrape() == value
        first = asyncio.ensure_future(source.scrape())
        await asyncio.sleep(0.1)
        second = asyncio.ensure_future(source.scrape())
        await asyncio.sleep(0.1)
        source.value = 4.0
        assert (await first, await second) == (4.0, 4.0), "one page for all who wait"
        assert len(source.begun) == 4


@virtual_time_from(1000.0)
async def test_a_request_while_a_page_is_made_gets_the_next_one() -> None:
    source = Families()
    async with source.exposed():
        early = asyncio.ensure_future(source.scrape())
        while not source.begun:
            await asyncio.sleep(0)
        source.value = 1.0
        assert await source.scrape() == 1.0
        assert await early == 0.0


@virtual_time_from(1000.0)
async def test_a_metric_that_cannot_be_read_fails_that_scrape_alone() -> None:
    source = Families()
    async with source.exposed():
        source.fails = True
        with pytest.raises(ZeroDivisionError):
            await source.scrape()
        source.fails = False
        assert await source.scrape() == 0.0


@virtual_time_from(1000.0)
async def test_rare_scrapes_do_not_wait() -> None:
    source = Families()
    async with source.exposed():
        for _ in range(3):
            await asyncio.sleep(1.0)
            began = now()
            await source.scrape()
            assert now() == began


@virtual_time_from(1000.0)
async def test_a_cancelled_scrape_leaves_the_page_of_the_others() -> None:
    source = Families()
    async with source.exposed():
        await source.scrape()
        impatient, patient = (asyncio.ensure_future(source.scrape()) for _ in range(2))
        await asyncio.sleep(0.1)
        impatient.cancel()
        assert await patient == 0.0


@virtual_time_from(1000.0)
async def test_other_tasks_run_between_two_metrics() -> None:
    source, turns = Families(families=20), 0
    async with source.exposed():
        asked = asyncio.ensure_future(source.scrape())
        while not asked.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns >= 20


class _Value(float):
    """A value that records which thread turns it into text."""

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

    value = _Value(1.0)
    value.threads = set()
    async with exposing(families) as exposition:
        text, _ = await exposition("")
    assert len(text.splitlines()) == ENCODE_IN_THREAD_FROM + 2
    assert value.threads
    assert threading.get_ident() not in value.threads


@virtual_time_from(1000.0)
async def test_scrapes_that_wait_at_the_end_are_cancelled() -> None:
    source = Families()
    async with asyncio.timeout(60):
        async with source.exposed():
            await source.scrape()
            waiting = asyncio.create_task(source.scrape())
            await asyncio.sleep(0)
        await asyncio.wait([waiting])
    assert waiting.cancelled()
