"""Open watches: what each has still to be told."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from tests.beds.simulator.history import HistoryEntry, event_line
from tests.beds.simulator.objects import Kind, Stored
from tests.beds.simulator.selection import Test

Wake: TypeAlias = Callable[[], None]


def _asleep() -> None:
    """Nobody waits for this watch yet."""


class Watch:
    """One client's watch. The cluster puts lines in, whoever moves the bytes takes them out."""

    def __init__(
        self, kind: Kind, api_version: str, namespace: str, selected: Test | None, *, bookmarks: bool, version: int
    ) -> None:
        self.kind, self.api_version, self.namespace = kind, api_version, namespace
        self.bookmarks = bookmarks
        self.version = version
        """The client knows everything up to this version once it has read what is pending."""
        self.wake: Wake = _asleep
        self.closed = False
        self._selected = selected
        self._pending: deque[bytes] = deque()

    def take(self) -> list[bytes]:
        """The lines since the last call."""
        lines = list(self._pending)
        self._pending.clear()
        return lines

    def offer(self, change: HistoryEntry) -> None:
        """Tell the client, if the change concerns what it has selected."""
        if self.namespace and change.after.name[0] != self.namespace:
            return
        if self._selected is None:
            self._put(change.line(self.api_version))
            return
        is_in = change.type != "DELETED" and self._selected(change.after.object)
        was_in = change.before is not None and self._selected(change.before.object)
        if is_in:
            self._put(change.line(self.api_version, "MODIFIED" if was_in else "ADDED"))
        elif was_in and change.before is not None:
            self._put(event_line("DELETED", _leaving(change).encoded(self.api_version)))

    def show(self, found: Stored) -> None:
        """One object of the initial state."""
        if self._selected is None or self._selected(found.object):
            self._put(event_line("ADDED", found.encoded(self.api_version)))

    def bookmark(self, version: int, *, initial_end: bool = False) -> None:
        """Say that everything up to `version` has been told."""
        self.version = version
        notes = ',"annotations":{"k8s.io/initial-events-end":"true"}' if initial_end else ""
        document = (
            f'{{"kind":"{self.kind.kind}","apiVersion":"{self.kind.api_version(self.api_version)}",'
            f'"metadata":{{"resourceVersion":"{version}"{notes}}}}}'
        )
        self._put(event_line("BOOKMARK", document.encode()))

    def fail(self, status: bytes) -> None:
        """End with an ERROR event."""
        self._put(event_line("ERROR", status))
        self.close()

    def close(self) -> None:
        """End the stream after what is pending."""
        self.closed = True
        self.wake()

    def _put(self, line: bytes) -> None:
        self._pending.append(line)
        self.wake()


def _leaving(change: HistoryEntry) -> Stored:
    """The state before the change, with the version of the change: what a client loses sight of."""
    if change.before is None or change.type == "DELETED":
        return change.after
    gone = change.before.copy()
    gone["metadata"]["resourceVersion"] = str(change.version)
    return Stored(change.after.kind, change.after.name, change.after.uid, change.version, gone)
