"""The last fence: it ends a process whose event loop is blocked while its Lease runs out.

A loop that does not run cannot notice that it has lost the leadership, and would go on writing when it wakes up. A
thread notices: after the deadline of the leader, and before anybody else may take the Lease (`Timing.fence`).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def end_process(sentence: str) -> None:
    """Print `sentence` on standard error and exit with 1 at once: no handlers, no `finally`, no blocking."""
    os.write(2, f"{sentence}\n".encode())
    os._exit(1)


class Watchdog:
    """Calls `bite` once, in its own thread, when `hold` was not called for longer than agreed.

    It uses real time: leave it out under a virtual clock.
    """

    def __init__(self, bite: Callable[[str], None] = end_process) -> None:
        self._bite = bite
        self._turn = threading.Condition()
        self._deadline = 0.0
        self._guarding = False

    def hold(self, seconds: float) -> None:
        """All is well: bite no sooner than `seconds` from now."""
        with self._turn:
            self._deadline = time.monotonic() + seconds

    @contextmanager
    def guarding(self) -> Iterator[None]:
        """Watch while the block runs. Call `hold` before entering."""
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
