"""The watchdog lives in real time, so these tests use very short spans and wait for what happens."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading

from controller.runtime.leader_election import Watchdog

PATIENCE = 60.0
"""Seconds for what takes a moment: the machine may be busy."""


def test_it_expires_once_at_the_last_deadline() -> None:
    sentences = queue.Queue[str]()
    watchdog = Watchdog(sentences.put)
    watchdog.extend(3600.0)
    watchdog.extend(0.02)
    with watchdog.running():
        assert "blocked past the leader lease" in sentences.get(timeout=PATIENCE)
    assert sentences.empty()


def test_leaving_in_time_calls_it_off() -> None:
    sentences = list[str]()
    watchdog = Watchdog(sentences.append)
    watchdog.extend(60.0)
    with watchdog.running():
        watchdog.extend(60.0)
    assert not any(thread.name == "leader-watchdog" for thread in threading.enumerate())
    assert sentences == []


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
