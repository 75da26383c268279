"""The event loop whose clock jumps."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.beds.virtual_time import START, VirtualLoop, clock, run, virtual_time


@virtual_time
async def test_a_day_passes_in_no_time() -> None:
    began = time.monotonic()
    await asyncio.sleep(86_400)
    assert time.monotonic() - began < 3600
    assert asyncio.get_running_loop().time() == 86_400
    assert clock() == START + 86_400


@virtual_time
async def test_timers_fire_in_their_order_and_at_their_time() -> None:
    seen: list[tuple[str, float]] = []

    async def after(seconds: float, name: str) -> None:
        await asyncio.sleep(seconds)
        seen.append((name, asyncio.get_running_loop().time()))

    async with asyncio.TaskGroup() as group:
        for seconds, name in ((3, "c"), (1, "a"), (2, "b")):
            group.create_task(after(seconds, name))
    assert seen == [("a", 1.0), ("b", 2.0), ("c", 3.0)]


@virtual_time
async def test_time_stands_still_while_there_is_work() -> None:
    for _ in range(1000):
        await asyncio.sleep(0)
    assert asyncio.get_running_loop().time() == 0.0


@virtual_time
async def test_a_frozen_process_wakes_up_late() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    due = loop.time() + 1
    loop.freeze(60)
    await asyncio.sleep(due - loop.time())
    assert loop.time() == 60


def test_waiting_for_ever_is_an_error_and_no_hang() -> None:
    async def for_ever() -> None:
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="every task waits"):
        run(for_ever())


def test_a_jump_past_an_open_socket_is_an_error_and_no_lost_answer() -> None:
    async def serve() -> None:
        async with await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1"):
            await asyncio.sleep(1)

    with pytest.raises(RuntimeError, match="a socket or a pipe is open"):
        run(serve())


def test_outside_of_a_loop_the_clock_shows_the_start() -> None:
    assert clock() == START
