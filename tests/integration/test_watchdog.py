"""The watchdog lives in real time, in processes that it may end."""

from __future__ import annotations

import subprocess
import sys

import pytest

PATIENCE = 60.0
"""Seconds for what takes a moment: the machine may be busy."""
BLOCKED = """
import asyncio, sys, time
from controller.runtime.leader_election import Watchdog

async def main():
    watchdog = Watchdog()
    watchdog.extend(3600)
    watchdog.extend(float(sys.argv[1]))
    with watchdog.running():
        try:
            time.sleep(float(sys.argv[2]))  # blocks the loop
        finally:
            print("cleaned up, and perhaps written something")
    time.sleep(0.3)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("deadline", "blocked", "code"),
    [("0.2", "600", 1), ("-1", "600", 1), ("0.2", "0", 0)],
    ids=["past the deadline", "a deadline that has passed", "left in time"],
)
def test_a_process_with_a_blocked_loop_ends_and_says_where(deadline: str, blocked: str, code: int) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", BLOCKED, deadline, blocked], capture_output=True, text=True, timeout=PATIENCE
    )
    assert ended.returncode == code
    assert ("cleaned up" in ended.stdout) is (code == 0)
    assert ended.stderr.startswith("Timeout (") is ("in main" in ended.stderr) is bool(code)
