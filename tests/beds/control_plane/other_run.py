"""Another run of Python beside a test, and a named pipe by which the test hears from it and of its end."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self


@contextmanager
def other_run(code: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run Python `code` in a process of its own, which is gone at the end of the block."""
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


class Pipe:
    """The reading end of a new named pipe at `path`; no read waits for ever."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)

    def __enter__(self) -> Self:
        self._reader = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._reader)

    def read(self, seconds: float = 120.0) -> str:
        """What came next, or "" when all its writers have ended; TimeoutError when neither happens."""
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)  # and POLLHUP, which is always told
        if not poll.poll(seconds * 1000):
            raise TimeoutError(f"nothing came through {self.path} within {seconds:g} s")
        return os.read(self._reader, 4096).decode()
