"""Keys that are due at some time ahead, with one timer for the earliest."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

REPLACED_KEPT = 64
"""The heap is rebuilt when more than so many of its entries, and more than half of them, are replaced ones."""


class Delays(Generic[K]):
    """At most one due time for each key: of two the earlier wins. Times are those of the running event loop."""

    def __init__(self, on_due: Callable[[K, str], None]) -> None:
        """`on_due` gets the key that is due, and the reason that was given with it."""
        self._on_due = on_due
        self.due: dict[K, tuple[float, str]] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._sequence = 0
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self.due)

    def add(self, key: K, due: float, reason: str) -> None:
        known = self.due.get(key)
        if known is not None and known[0] <= due:
            return
        self.due[key] = (due, reason)
        self._sequence += 1
        heapq.heappush(self._heap, (due, self._sequence, key))
        if len(self._heap) > 2 * len(self.due) + REPLACED_KEPT:
            self._drop_replaced()
        self._set_timer()

    def clear(self) -> None:
        self.due.clear()
        self._heap.clear()
        self._set_timer()

    def _on_timer(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._heap and self._heap[0][0] <= now:
            due, _, key = heapq.heappop(self._heap)
            known = self.due.get(key)
            if known is not None and known[0] == due:
                del self.due[key]
                self._on_due(key, known[1])
        self._set_timer()

    def _drop_replaced(self) -> None:
        """Rebuild the heap without the entries that an earlier due time has replaced: otherwise each would stay until
        its own time, perhaps a quarter of an hour."""
        self._heap = [(due, number, key) for number, (key, (due, _)) in enumerate(self.due.items())]
        self._sequence = len(self._heap)
        heapq.heapify(self._heap)

    def _set_timer(self) -> None:
        """Set the one timer to the earliest entry. A replaced entry fires as well, and does nothing."""
        first = self._heap[0][0] if self._heap else None
        if self._timer is not None:
            if self._timer.when() == first:
                return
            self._timer.cancel()
            self._timer = None
        if first is not None:
            self._timer = asyncio.get_running_loop().call_at(first, self._on_timer)
