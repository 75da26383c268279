"""The objects, their one counter of versions, what has happened to them, and who learns of changes: for watches that
resume, and for lists as of a version. No rule of the API lives here."""

from __future__ import annotations

import hashlib
import random
import uuid
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TypeAlias

from controller.runtime.clock import Clock
from tests.beds.simulator.objects import Kind, Name, Object, Stored
from tests.beds.simulator.selection import Test


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

    def __init__(self) -> None:
        self._changes: deque[HistoryEntry] = deque()
        self.forgotten = 0
        """Changes up to this version are gone."""

    def add(self, change: HistoryEntry) -> None:
        self._changes.append(change)
        if len(self._changes) > LONGEST_HISTORY:
            self.forgotten = self._changes.popleft().version

    def forget(self, version: int) -> None:
        """Compact: no watch can resume from before `version` any more."""
        while self._changes and self._changes[0].version <= version:
            self._changes.popleft()
        self.forgotten = max(self.forgotten, version)

    def begin_at(self, version: int) -> None:
        """Nothing has ever happened after `version`, and no watch can resume from before it."""
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


Wake: TypeAlias = Callable[[], None]


def _asleep() -> None:
    """No client waits for this watch yet."""


class Watch:
    """One client's watch. The cluster puts lines in, the transport takes them out."""

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


LONGEST_HISTORY = 10_000
SEED = 0
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(frozen=True)
class Backup:
    """What an etcd held at a version."""

    version: int
    objects: Mapping[Kind, Mapping[Name, Stored]]


class Store:
    """One etcd with the watch cache before it."""

    def __init__(self, clock: Clock, kinds: Iterable[Kind]) -> None:
        self.clock = clock
        self.version = 1
        self.objects: dict[Kind, dict[Name, Stored]] = {}
        self.histories: dict[Kind, History] = {}
        self.watches: dict[Kind, list[Watch]] = {}
        self.by_uid: dict[str, Stored] = {}
        self.dependents: defaultdict[str, dict[str, None]] = defaultdict(dict)
        """uid of an owner -> uids of the objects that name it; a dict, so that the order is that of time."""
        self._random = random.Random(SEED)
        self._made = Counter[str]()
        self.made = 0
        """How many uids and names were given away; dry runs take some too."""
        for kind in kinds:
            self.add_kind(kind)

    def add_kind(self, kind: Kind) -> None:
        self.objects[kind] = {}
        self.histories[kind] = History()
        self.watches[kind] = []

    def remove_kind(self, kind: Kind) -> None:
        """As when a CRD is deleted: the objects go without events, the watches end."""
        for found in list(self.objects.pop(kind).values()):
            self._forget(found)
        del self.histories[kind]
        for watch in self.watches.pop(kind):
            watch.close()

    def backup(self) -> Backup:
        return Backup(self.version, {kind: dict(found) for kind, found in self.objects.items()})

    def restore(self, backup: Backup) -> None:
        """The server begins again with what there was then: versions go back, and all watches end."""
        self.version = backup.version
        self.by_uid.clear()
        self.dependents.clear()
        for kind in self.objects:
            self.objects[kind] = dict(backup.objects.get(kind, {}))
            self.histories[kind].begin_at(backup.version)
            for found in self.objects[kind].values():
                self._know(found)
            for watch in tuple(self.watches[kind]):
                watch.close()

    def new_uid(self, kind: Kind, name: Name) -> str:
        """Never twice the same; each depends on its name and how often that was there, not on who else was made."""
        what = f"{SEED} {kind.resource} {'/'.join(name)}"
        self._made[what] += 1
        self.made += 1
        digest = hashlib.blake2b(f"{what} {self._made[what]}".encode(), digest_size=16).digest()
        return str(uuid.UUID(bytes=digest, version=4))

    def new_name(self, base: str) -> str:
        """A name for `generateName`: the base, cut to 58 characters, and five letters."""
        self.made += 1
        return base[:58] + "".join(self._random.choices(_SUFFIX_LETTERS, k=5))

    def get(self, kind: Kind, name: Name) -> Stored | None:
        return self.objects[kind].get(name)

    def put(self, kind: Kind, name: Name, new: Object) -> Stored:
        """Write a new state, which gets the next version."""
        before = self.objects[kind].get(name)
        after = self._next(kind, name, new)
        self.objects[kind][name] = after
        if before is not None:
            self._forget(before)
        self._know(after)
        self._tell(HistoryEntry("ADDED" if before is None else "MODIFIED", after, before, self.clock()))
        return after

    def remove(self, before: Stored) -> Stored:
        """Remove an object; returns its last state, with the version of the removal."""
        after = self._next(before.kind, before.name, before.copy())
        del self.objects[before.kind][before.name]
        self._forget(before)
        self._tell(HistoryEntry("DELETED", after, before, self.clock()))
        return after

    def owned_by(self, uid: str) -> list[Stored]:
        """The objects that name `uid` among their owners."""
        return [found for key in self.dependents.get(uid, ()) if (found := self.by_uid.get(key)) is not None]

    def compact(self) -> None:
        """Forget the history: resuming from there costs a 410."""
        for history in self.histories.values():
            history.forget(self.version)

    def _next(self, kind: Kind, name: Name, new: Object) -> Stored:
        self.version += 1
        metadata = new["metadata"]
        metadata["resourceVersion"] = str(self.version)
        return Stored(kind, name, metadata["uid"], self.version, new)

    def _know(self, new: Stored) -> None:
        self.by_uid[new.uid] = new
        for owner in new.metadata.get("ownerReferences") or ():
            self.dependents[owner["uid"]][new.uid] = None

    def _forget(self, old: Stored) -> None:
        self.by_uid.pop(old.uid, None)
        for owner in old.metadata.get("ownerReferences") or ():
            self.dependents[owner["uid"]].pop(old.uid, None)

    def _tell(self, change: HistoryEntry) -> None:
        self.histories[change.after.kind].add(change)
        for watch in self.watches[change.after.kind]:
            watch.offer(change)
