"""The cache of one resource, written by reflectors, one for each namespace."""

from __future__ import annotations

from collections.abc import Callable, Hashable, ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from itertools import chain
from types import MappingProxyType
from typing import Generic, Never, Protocol, TypeVar

from controller.api.objects import Key, Value
from controller.kube.decode import Bookmark, Malformed, Seen
from controller.runtime.expectations import CacheProgress
from controller.runtime.watch import Init

V = TypeVar("V", bound=Hashable)


class Record(Protocol):
    @property
    def uid(self) -> str: ...
    @property
    def version(self) -> str: ...


T = TypeVar("T", bound=Record)


class Change(Value, Generic[T]):
    """A change of one object. `old` is None if it is new, `new` if it is gone or no longer selected. `old is new` if
    it has become malformed, or readable again (before the change that does so); both are None if it was never
    readable. `old` is what readers saw before, even after a missed deletion. A recreated object makes two changes."""

    key: Key
    old: T | None
    new: T | None


class Store(Generic[T]):
    """The objects of one resource by key, as the server showed them.

    - The states of one object appear in order, possibly with gaps. Different objects have no order.
    - Values are frozen and may be old; the latest writes may be missing: see `progress_in`.
    - A complete list replaces everything in store and indexes at one moment; an incomplete one changes nothing.
    - An object that cannot be decoded keeps its last good state; its key is in `malformed` meanwhile.
    - Nothing awaits during a change, so there are no locks. Do not keep results of reads across an await.
    - Changes are reported afterwards, one by one, with other tasks in between; `follow` is called at once."""

    def __init__(self, namespaces: Iterable[str] = ("",)) -> None:
        self._objects: dict[Key, T] = {}
        self._malformed: dict[Key, str] = {}
        self._followers: list[Callable[[Key, T | None, T | None], None]] = []
        self.writers = {namespace: StoreWriter(self, namespace) for namespace in namespaces}
        """One for each reflector; "" writes the whole store."""
        self._progress = dict.fromkeys(self.writers, CacheProgress())
        self._unfilled = set(self.writers)

    def progress_in(self, namespace: str) -> CacheProgress:
        return self._progress.get(namespace) or self._progress.get("") or CacheProgress()

    @property
    def filled(self) -> bool:
        """Whether the first list is complete in every namespace."""
        return not self._unfilled

    @property
    def malformed(self) -> Mapping[Key, str]:
        """The objects whose latest state could not be decoded, with the reason."""
        return self._malformed

    def get(self, key: Key) -> T | None:
        return self._objects.get(key)

    def values(self) -> ValuesView[T]:
        return self._objects.values()

    def items(self) -> ItemsView[Key, T]:
        return self._objects.items()

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: Key) -> bool:
        return key in self._objects

    def index(self, value_of: Callable[[T], V | None]) -> Index[V, T]:
        """Returns an index that is kept up to date, without objects whose value is None. `value_of` must be cheap and
        depend on the object alone: it is called again when the object goes."""
        index: Index[V, T] = Index(value_of)
        for key, obj in self._objects.items():
            index._move(key, None, obj)
        self.follow(index._move)
        return index

    def follow(self, move: Callable[[Key, T | None, T | None], None]) -> None:
        """Calls `move(key, old, new)` at the moment readers see a change. It must be cheap; the uids may differ."""
        self._followers.append(move)

    def _put(self, item: Seen[T] | Malformed) -> None:
        key = item.key
        if isinstance(item, Malformed):
            self._malformed[key] = item.reason
            return
        self._malformed.pop(key, None)
        old, new = self._objects.get(key), item.obj
        if _is_same(old, new):
            return
        if new is not None:
            self._objects[key] = new
        else:
            del self._objects[key]
        for move in self._followers:
            move(key, old, new)


class StoreWriter(Generic[T]):
    """The only way to change a store, or its part in one namespace; held by a reflector."""

    def __init__(self, store: Store[T], namespace: str) -> None:
        self._store, self._namespace = store, namespace
        self._buffer: dict[Key, Seen[T] | Malformed] | None = None
        self._requested = float("-inf")

    def list_requested(self, moment: float) -> None:
        """Records when the list between the next Init and its `replace` was requested (`elapsed`)."""
        self._requested = moment

    def apply(self, event: Init | Seen[T] | Malformed | Bookmark) -> Sequence[Change[T]]:
        """Applies one event; returns the changes. Readers see none between Init and `replace`."""
        match event:
            case Seen() | Malformed():
                if self._buffer is None:
                    self._advance(event.version)
                    if changes := self._changes_by(event):
                        self._store._put(event)
                    return changes
                if isinstance(event, Seen) and event.obj is None:
                    self._buffer.pop(event.key, None)
                else:
                    self._buffer[event.key] = event
            case Bookmark(version=version):
                if self._buffer is None:
                    self._advance(version)
            case Init():
                self._buffer = {}
        return ()

    def replace(self, version: str) -> Iterator[Sequence[Change[T]]]:
        """Applies the complete list as of `version`. Must be iterated to the end: the first steps only compare, then
        all differences are replaced at once, and each further step yields the changes of one object."""
        listed, self._buffer = self._buffer or {}, None
        store, namespace = self._store, self._namespace
        absent, differing, changes = list[Seen[T]](), list[Seen[T] | Malformed](), list[Change[T]]()
        for key in (*store._objects, *(key for key in store._malformed if key not in store)):
            if key not in listed and (not namespace or key.namespace == namespace):
                absent.append(Seen(key=key, version="", obj=None))
            yield ()
        for item in chain(absent, listed.values()):
            if found := self._changes_by(item):
                differing.append(item)
                changes += found
            yield ()
        for item in differing:
            store._put(item)
        store._progress[namespace] = CacheProgress(listed=self._requested)  # may go back, after a backup was restored
        store._unfilled.discard(namespace)
        self._advance(version)
        del listed, absent, differing
        for change in changes:
            yield (change,)

    def is_ahead_of(self, version: str) -> bool:
        """Whether it has seen a higher version than a new list has: a backup was restored."""
        return version.isdigit() and int(version) < self._store._progress[self._namespace].version

    @property
    def filled(self) -> bool:
        return self._namespace not in self._store._unfilled

    def _changes_by(self, item: Seen[T] | Malformed) -> tuple[Change[T], ...]:
        """The changes if `item` replaces what is known; empty if it is the same."""
        key, malformed = item.key, self._store._malformed
        old = self._store.get(key)
        if isinstance(item, Malformed):
            return () if malformed.get(key) == item.reason else (Change(key=key, old=old, new=old),)
        new = item.obj
        readable = (Change(key=key, old=old, new=old),) if key in malformed else ()
        if _is_same(old, new):
            return readable
        if old is not None and new is not None and old.uid != new.uid:
            return (*readable, Change(key=key, old=old, new=None), Change(key=key, old=None, new=new))
        return (*readable, Change(key=key, old=old, new=new))

    def _advance(self, version: str) -> None:
        if version.isdigit():
            before = self._store._progress[self._namespace]
            if int(version) > before.version:
                self._store._progress[self._namespace] = CacheProgress(version=int(version), listed=before.listed)


def _is_same(old: Record | None, new: Record | None) -> bool:
    if old is None or new is None:
        return old is new
    return (old.uid, old.version) == (new.uid, new.version)


class Index(Generic[V, T]):
    """Objects grouped by a value, at most one for each object. Made by `Store.index`."""

    def __init__(self, value_of: Callable[[T], V | None]) -> None:
        self._value_of = value_of
        self._groups: dict[V, dict[Key, T]] = {}

    def get(self, value: V) -> Mapping[Key, T]:
        """The live group of objects with `value`: do not keep it across an await."""
        return self._groups.get(value) or _NOTHING

    def values(self) -> Sequence[V]:
        return list(self._groups)

    def _move(self, key: Key, old: T | None, new: T | None) -> None:
        was = None if old is None else self._value_of(old)
        now = None if new is None else self._value_of(new)
        if was is not None and was != now:
            group = self._groups[was]
            del group[key]
            if not group:
                del self._groups[was]
        if now is not None and new is not None:
            self._groups.setdefault(now, {})[key] = new


_NOTHING: Mapping[Key, Never] = MappingProxyType({})
