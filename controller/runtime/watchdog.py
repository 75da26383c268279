"""The last fence: ends a process whose event loop is blocked while its lease runs out.

A loop that does not run cannot notice that it lost its leadership, and would go on writing when it wakes. A
thread can notice. It acts after the holder's own deadline and before anybody else may take the lease.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def end_process(sentence: str) -> None:
    """Say why on standard error and exit with 1, now: no handlers, no `finally`, nothing that could block."""
    os.write(2, f"{sentence}\n".encode())
    os._exit(1)


class Watchdog:
    """Calls `bite` once, in its own thread, when it has been `hold` for longer than agreed.

    Uses real time: under a virtual clock leave it out.
    """

    def __init__(self, bite: Callable[[str], None] = end_process) -> None:
        self._bite = bite
        self._turn = threading.Condition()
        self._deadline = 0.0
        self._guarding = False

    def hold(self, seconds: float) -> None:
        """All is well: bite only after another `seconds`."""
        with self._turn:
            self._deadline = time.monotonic() + seconds

    @contextmanager
    def guarding(self) -> Iterator[None]:
        """Watch while the block runs. Call `hold` before."""
        self._guarding = True
        thread = threading.Thread(target=self._watch, name="leader-watchdog", daemon=True)
        thread.start()
        try:
            yield
        finally:
            with self._turn:
                self._guarding = False
                self._turn.notify()
            thread.join()

    def _watch(self) -> None:
        with self._turn:
            while self._guarding:
                left = self._deadline - time.monotonic()
                if left <= 0:
                    break
                self._turn.wait(left)
            if not self._guarding:
                return
        self._bite("kruise-ds-controller: the event loop was blocked past the leader lease; ending the process")
