"""The fence: the last check, before a write leaves the process, that this process still leads.

A process that was frozen may wake up in the middle of a plan, or with a connection half open. So the deadline of its
Lease is checked for every write, before a connection is opened and again just before the bytes are sent.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.runtime.lease_rules import LeadershipLost


class Fence:
    """No write passes until `open` was called. A sender asks before each of them."""

    def __init__(self) -> None:
        self._guard: Callable[[], None] | None = None

    def open(self, guard: Callable[[], None]) -> None:
        """Let writes pass if `guard` does not raise."""
        self._guard = guard

    def permit(self) -> None:
        """Raises LeadershipLost before `open`, and whatever the guard raises."""
        if self._guard is None:
            raise LeadershipLost("this process does not lead; nothing is written")
        self._guard()

    @property
    def is_open(self) -> bool:
        """Whether a write would pass now, that is, whether this process leads."""
        try:
            self.permit()
        except LeadershipLost:
            return False
        return True
