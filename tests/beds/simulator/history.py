"""What has happened to the objects of one kind: for watches that resume, and for lists as of a version."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile

from tests.beds.simulator.objects import Name, Stored


@dataclass(eq=False)
class HistoryEntry:
    """One write. `after` is the last state, with the version of the removal, when the object was removed."""

    type: str
    """ADDED, MODIFIED or DELETED."""
    after: Stored
    before: Stored | None
    at: float
    """Seconds since 1970."""
    _lines: dict[tuple[str, str], bytes] = field(default_factory=dict)

    @property
    def version(self) -> int:
        return self.after.version

    def line(self, api_version: str, type_: str = "") -> bytes:
        """The change as a line of a watch; `type_` where a selector turns it into another one."""
        key = (api_version, type_ or self.type)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = event_line(key[1], self.after.encoded(api_version))
        return line


def event_line(type_: str, document: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (type_.encode(), document)


class History:
    """The latest changes of one kind, oldest first; older ones are forgotten and then cost a 410."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._changes: deque[HistoryEntry] = deque()
        self.forgotten = 0
        """Changes up to this version are gone."""

    def add(self, change: HistoryEntry) -> None:
        self._changes.append(change)
        if len(self._changes) > self._limit:
            self.forgotten = self._changes.popleft().version

    def forget(self, version: int) -> None:
        """Compact: nobody can resume from before `version` any more."""
        while self._changes and self._changes[0].version <= version:
            self._changes.popleft()
        self.forgotten = max(self.forgotten, version)

    def begin_at(self, version: int) -> None:
        """Nothing has ever happened after `version`, and nobody can resume from before it."""
        self._changes.clear()
        self.forgotten = version

    def since(self, version: int) -> list[HistoryEntry]:
        """All changes after `version`, oldest first. Ask `forgotten` first."""
        newer = list(takewhile(lambda change: change.version > version, reversed(self._changes)))
        newer.reverse()
        return newer

    def as_of(self, version: int, now: dict[Name, Stored]) -> dict[Name, Stored]:
        """The objects as they were at `version`, given those of `now`."""
        then = dict(now)
        for change in reversed(self.since(version)):
            if change.before is None:
                then.pop(change.after.name, None)
            else:
                then[change.after.name] = change.before
        return then

    def version_at(self, moment: float) -> int:
        """The version that was the latest of this kind at `moment`, as far as is remembered."""
        return max((change.version for change in self._at_or_before(moment)), default=self.forgotten)

    def _at_or_before(self, moment: float) -> Iterator[HistoryEntry]:
        return (change for change in self._changes if change.at <= moment)
