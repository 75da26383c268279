"""The demo as a process, for tests that look at it from outside."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]
SECONDS = 300.0
"""Much more than anything takes, also on a busy machine."""


@contextmanager
def demo(*options: str) -> Iterator[subprocess.Popen[str]]:
    """`python -m tests.tools.demo` as a shell would start it; gone at the end of the block in any case."""
    command = [sys.executable, "-m", "tests.tools.demo", *options]
    with subprocess.Popen(
        command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[str], words: str) -> str:
    """Read whole lines up to the one that has `words`; returns them."""
    assert process.stdout is not None
    read = ""
    for line in process.stdout:
        read += line
        if words in line:
            return read
    raise AssertionError(f"it ended without {words!r}")


def children_of(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in tasks.read_text().split()]


def running(children: list[int]) -> list[int]:
    return [child for child in children if Path(f"/proc/{child}").exists()]
