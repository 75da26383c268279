"""The event loop whose clock jumps."""

from __future__ import annotations

import asyncio

import pytest

from tests.beds.real_node.clients import Silence
from tests.beds.virtual_time import START, VirtualLoop, clock, run, virtual_time


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


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_silence_lasts_from_the_first_vain_question_to_an_answer() -> None:
    clock = Clock()
    silence = Silence(clock)
    clock.now = 3.0
    silence.kept("node-1", 2.0)
    silence.kept("node-1", 2.5)
    silence.broken("node-1")
    clock.now = 9.0
    silence.broken("node-1")
    assert silence.waited == {"node-1": 1.0}


def test_a_node_is_not_silent_while_another_pod_of_it_answers() -> None:
    clock = Clock()
    silence = Silence(clock)
    silence.broken("node-1", "old")
    silence.broken("node-1", "new")
    clock.now = 5.0
    silence.kept("node-1", 4.0, "old")
    silence.broken("node-1", "new")
    assert silence.waited == {}
    silence.kept("node-1", 6.0, "new")
    clock.now = 7.0
    silence.broken("node-1", "new")
    assert silence.waited == {"node-1": 1.0}


def test_a_silence_that_lasts_to_the_end_counts() -> None:
    clock = Clock()
    silence = Silence(clock)
    silence.kept("node-1", 1.0)
    clock.now = 4.0
    silence.end()
    silence.end()
    assert silence.waited == {"node-1": 3.0}
