"""Reads side by side: nothing goes on after one of them has failed, and its error comes alone."""

import asyncio

import pytest

from kubectl_plugin.cluster.documents import CONCURRENT_READS, for_each, scope, side_by_side


class Refused(Exception):
    pass


async def answer(text: str) -> str:
    await asyncio.sleep(0)
    return text


async def fail(text: str) -> str:
    await asyncio.sleep(0)
    raise Refused(text)


async def hang(ended: list[str]) -> str:
    try:
        await asyncio.Event().wait()
    finally:
        ended.append("cancelled")
    return "never"


async def test_answers_come_in_the_order_of_the_questions() -> None:
    assert await side_by_side(answer("a"), answer("b")) == ("a", "b")
    assert await side_by_side(answer("a"), side_by_side(*map(answer, "bc")), side_by_side()) == ("a", ("b", "c"), ())


async def test_the_first_error_comes_alone_when_the_others_have_ended() -> None:
    ended: list[str] = []
    with pytest.raises(Refused, match="first"):
        await side_by_side(hang(ended), fail("first"), side_by_side(hang(ended), fail("second")))
    assert ended == ["cancelled", "cancelled"]


async def test_of_very_many_only_some_are_read_at_once() -> None:
    under_way, most = 0, 0

    async def read(number: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return -number

    numbers = range(3 * CONCURRENT_READS + 1)
    assert await for_each(numbers, read) == tuple(-number for number in numbers)
    assert most == CONCURRENT_READS


async def test_of_very_many_the_first_error_ends_the_others() -> None:
    ended: list[str] = []
    with pytest.raises(Refused, match="first"):
        await for_each(range(3 * CONCURRENT_READS), lambda number: hang(ended) if number else fail("first"))
    assert ended == ["cancelled"] * CONCURRENT_READS, "those under way, and the one that got the turn of the first"


async def test_who_is_cancelled_takes_the_reads_along() -> None:
    ended: list[str] = []
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(side_by_side(hang(ended), hang(ended)))
        await answer("they have begun")
        await answer("and wait")
        asking.cancel()
    assert ended == ["cancelled", "cancelled"]


async def refused_beside(ended: list[str]) -> None:
    async with scope() as group:
        group.create_task(hang(ended))
        await answer("it has begun")
        raise Refused("block")


async def test_an_error_of_the_block_comes_alone_and_ends_its_tasks() -> None:
    ended: list[str] = []
    with pytest.raises(Refused, match="block"):
        await refused_beside(ended)
    assert ended == ["cancelled"]
