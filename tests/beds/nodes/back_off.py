"""The kubelet's memory of what has failed, and how long it waits before it tries again."""

from __future__ import annotations

from dataclasses import dataclass

LONGEST = 300.0
"""Seconds."""


@dataclass
class _Entry:
    seconds: float
    updated: float


class BackOff:
    """Times are seconds of the loop. What has been well for twice the longest wait is forgotten."""

    def __init__(self, first: float) -> None:
        self._first = first
        self._entries: dict[str, _Entry] = {}

    def until(self, key: str, since: float) -> float | None:
        """When the wait that began at `since` ends; None when there is nothing to wait for."""
        entry = self._entries.get(key)
        return None if entry is None or self._is_old(entry, since) else since + entry.seconds

    def until_after_update(self, key: str) -> float:
        """The same for a wait that began with the last failure."""
        entry = self._entries.get(key)
        return entry.updated + entry.seconds if entry else 0.0

    def next(self, key: str, since: float, now: float) -> None:
        """Another try: the next wait is twice as long."""
        entry = self._entries.get(key)
        seconds = self._first if entry is None or self._is_old(entry, since) else min(2 * entry.seconds, LONGEST)
        self._entries[key] = _Entry(seconds, now)

    def forget(self) -> None:
        """The kubelet was started anew."""
        self._entries.clear()

    @staticmethod
    def _is_old(entry: _Entry, since: float) -> bool:
        return since - entry.updated > 2 * LONGEST
