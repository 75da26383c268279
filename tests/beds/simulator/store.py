"""The objects, their one counter of versions, and who is told of changes. No rule of the API lives here."""

from __future__ import annotations

import hashlib
import random
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controller.runtime.clock import Clock
from tests.beds.simulator.history import History, HistoryEntry
from tests.beds.simulator.objects import Kind, Name, Object, Stored
from tests.beds.simulator.watching import Watch

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(frozen=True)
class Backup:
    """What an etcd held at a version."""

    version: int
    objects: Mapping[Kind, Mapping[Name, Stored]]


class Store:
    """One etcd with the watch cache before it."""

    def __init__(self, clock: Clock, kinds: Iterable[Kind], *, history: int, seed: int) -> None:
        self.clock = clock
        self.version = 1
        self.objects: dict[Kind, dict[Name, Stored]] = {}
        self.histories: dict[Kind, History] = {}
        self.watches: dict[Kind, list[Watch]] = {}
        self.by_uid: dict[str, Stored] = {}
        self.dependents: defaultdict[str, dict[str, None]] = defaultdict(dict)
        """uid of an owner -> uids of the objects that name it; a dict, so that the order is that of time."""
        self._history = history
        self._seed, self._random = seed, random.Random(seed)
        self._made = Counter[str]()
        self.made = 0
        """How many uids and names were given away; dry runs take some too."""
        for kind in kinds:
            self.add_kind(kind)

    def add_kind(self, kind: Kind) -> None:
        self.objects[kind] = {}
        self.histories[kind] = History(self._history)
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
        """Never twice the same; each depends on the seed, on what it is for and on how often that name was there,
        not on who else was made before.
        """
        what = f"{self._seed} {kind.resource} {'/'.join(name)}"
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

    def compact(self, version: int | None = None) -> None:
        """Forget the history up to `version` (all of it when None): resuming from there costs a 410."""
        for history in self.histories.values():
            history.forget(self.version if version is None else version)

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
