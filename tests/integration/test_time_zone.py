"""Times of a Lease do not depend on the time zone of the machine."""

from __future__ import annotations

import subprocess
import sys


def test_times_are_utc_with_six_digits() -> None:
    """Wherever it runs: a process learns its time zone when it begins."""
    code = "from controller.runtime.leader_election import micro_time; print(micro_time(1795255200.25))"
    done = subprocess.run([sys.executable, "-c", code], env={"TZ": "Asia/Tokyo"}, capture_output=True, text=True)
    assert done.stdout == "2026-11-21T10:00:00.250000Z\n", done.stderr
