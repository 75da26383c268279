"""What the kernel says a process has used."""

from __future__ import annotations

import os
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
