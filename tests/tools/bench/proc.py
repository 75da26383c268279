"""What the kernel says a process has used. As a program: the seconds and MiB of a command, whose output is dropped,
for a peak begins with that of the parent, which is small there."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time of all its threads so far, in steps of a kernel tick (10 ms)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def peak_mebibytes(pid: int) -> float:
    """The most memory that was ever resident (VmHWM)."""
    return _status_field(pid, "VmHWM")


def resident_mebibytes(pid: int) -> float:
    """The memory that is resident now (VmRSS)."""
    return _status_field(pid, "VmRSS")


def _status_field(pid: int, name: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        field, _, value = line.partition(":")
        if field == name:
            return int(value.split()[0]) / 1024
    raise LookupError(f"process {pid} has no {name}")


def main(command: list[str]) -> int:
    began, null = time.perf_counter(), os.open(os.devnull, os.O_RDWR)
    pid = os.posix_spawn(
        command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, null, 1)]
    )
    _, status, usage = os.wait4(pid, 0)
    print(time.perf_counter() - began, usage.ru_maxrss / 1024)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
