"""The watchdog lives in real time, so these tests use very short spans and wait for what happens."""

from __future__ import annotations

import subprocess
import sys
import threading

from controller.runtime.leader_election import Watchdog

PATIENCE = 60.0
"""Seconds for what takes a moment: the machine may be busy."""


class Bitten:
    def __init__(self) -> None:
        self.happened = threading.Event()
        self.words: list[str] = []

    def __call__(self, sentence: str) -> None:
        self.words.append(sentence)
        self.happened.set()


def test_a_holder_that_stops_holding_is_bitten_once() -> None:
    bitten = Bitten()
    watchdog = Watchdog(bitten)
    watchdog.extend(0.02)
    with watchdog.running():
        assert bitten.happened.wait(PATIENCE)
    assert len(bitten.words) == 1
    assert "blocked past the leader lease" in bitten.words[0]


def test_only_the_last_hold_counts() -> None:
    bitten = Bitten()
    watchdog = Watchdog(bitten)
    watchdog.extend(3600.0)
    watchdog.extend(0.02)
    with watchdog.running():
        assert bitten.happened.wait(PATIENCE)


def test_leaving_in_time_calls_it_off() -> None:
    bitten = Bitten()
    watchdog = Watchdog(bitten)
    watchdog.extend(60.0)
    with watchdog.running():
        watchdog.extend(60.0)
    assert not any(thread.name == "leader-watchdog" for thread in threading.enumerate())
    assert bitten.words == []


BLOCKED = """
import asyncio, time
from controller.runtime.leader_election import Watchdog

async def main():
    watchdog = Watchdog()
    watchdog.extend(0.2)
    with watchdog.running():
        try:
            time.sleep(600)  # blocks the loop
        finally:
            print("cleaned up, and perhaps written something")

asyncio.run(main())
"""


def test_a_process_with_a_blocked_loop_ends_with_one_line() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", BLOCKED], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr == (
        "kruise-ds-controller: the event loop was blocked past the leader lease; ending the process\n"
    )
