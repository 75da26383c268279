"""The cache of one resource, written by reflectors, one for each namespace."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, ValuesView
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

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
Move: TypeAlias = tuple[Key, T | None, T | None]
"""Key, old and new state; the uids may differ."""


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
    - Changes are reported afterwards, one by one, with other tasks in between; followers are called at once."""

    def __init__(self, namespaces: Iterable[str] = ("",)) -> None:
        self._objects: dict[Key, T] = {}
        self._malformed: dict[Key, str] = {}
        self._indexes: list[Index[Any, T]] = []
        self._followers: list[tuple[Callable[[Sequence[Move[T]]], None], Callable[[T | None, T | None], bool]]] = []
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

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: Key) -> bool:
        return key in self._objects

    def index(self, value_of: Callable[[T], V | None]) -> Index[V, T]:
        """Returns an index that is kept up to date, without objects whose value is None. `value_of` must be cheap and
        depend on the object alone: it is called again when the object goes."""
        index: Index[V, T] = Index(self, value_of)
        regrouping = _Regrouping(index)
        for key, obj in self._objects.items():
            regrouping.add(key, None, obj)
        regrouping.apply()
        self._indexes.append(index)
        return index

    def follow(
        self, on_moves: Callable[[Sequence[Move[T]]], None], matters: Callable[[T | None, T | None], bool]
    ) -> None:
        """Calls `on_moves` at the moment readers see changes from an old to a new state that `matters`. Both must be
        cheap; a list may change all objects at once."""
        self._followers.append((on_moves, matters))


class _Replacement(Generic[T]):
    """New states of objects, collected one by one, so that little is left for the one moment in which readers get to
    see them all."""

    def __init__(self, store: Store[T]) -> None:
        self._store = store
        self._objects: dict[Key, T] = {}
        self._gone: list[Key] = []
        self._malformed: dict[Key, str] = {}
        self._readable: list[Key] = []
        self._regroupings = [_Regrouping(index) for index in store._indexes]
        self._moves: list[list[Move[T]]] = [[] for _ in store._followers]

    def add(self, item: Seen[T] | Malformed) -> None:
        store, key = self._store, item.key
        if isinstance(item, Malformed):
            self._malformed[key] = item.reason
            return
        if key in store._malformed:
            self._readable.append(key)
        old, new = store._objects.get(key), item.obj
        if _is_same(old, new):
            return
        if new is not None:
            self._objects[key] = new
        else:
            self._gone.append(key)
        for regrouping in self._regroupings:
            regrouping.add(key, old, new)
        for moves, (_, matters) in zip(self._moves, store._followers, strict=True):
            if matters(old, new):
                moves.append((key, old, new))

    def apply(self) -> None:
        store = self._store
        for key in self._readable:
            store._malformed.pop(key, None)
        store._malformed.update(self._malformed)
        for key in self._gone:
            del store._objects[key]
        if store._objects:
            store._objects.update(self._objects)
        else:
            store._objects = self._objects
        for regrouping in self._regroupings:
            regrouping.apply()
        for moves, (on_moves, _) in zip(self._moves, store._followers, strict=True):
            if moves:
                on_moves(moves)


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
                        replacement = _Replacement(self._store)
                        replacement.add(event)
                        replacement.apply()
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
        absent: dict[Key, Seen[T] | Malformed] = {}
        replacement, changes = _Replacement(store), deque[Change[T]]()
        for key in (*store._objects, *(key for key in store._malformed if key not in store)):
            if key not in listed and (not namespace or key.namespace == namespace):
                absent[key] = Seen(key=key, version="", obj=None)
            yield ()
        for items in (absent, listed):
            for key in tuple(items):
                item = items.pop(key)  # and freed here, as each change below: all at once would take long
                if found := self._changes_by(item):
                    replacement.add(item)
                    changes.extend(found)
                yield ()
        replacement.apply()
        del replacement
        store._progress[namespace] = CacheProgress(listed=self._requested)  # may go back, after a backup was restored
        store._unfilled.discard(namespace)
        self._advance(version)
        while changes:
            yield (changes.popleft(),)

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
    """Objects grouped by a value, at most one for each object. Made by `Store.index`. It has only the keys, so that a
    new state of an object with the same value costs nothing."""

    def __init__(self, store: Store[T], value_of: Callable[[T], V | None]) -> None:
        self._store, self._value_of = store, value_of
        self._groups: dict[V, dict[Key, None]] = {}

    def get(self, value: V) -> tuple[T, ...]:
        """The objects with `value`."""
        group = self._groups.get(value)
        return tuple(map(self._store._objects.__getitem__, group)) if group is not None else ()


class _Regrouping(Generic[V, T]):
    """The part of a `_Replacement` in one index."""

    def __init__(self, index: Index[V, T]) -> None:
        self._index = index
        self._left: list[tuple[V, Key]] = []
        self._joined: dict[V, dict[Key, None]] = {}

    def add(self, key: Key, old: T | None, new: T | None) -> None:
        value_of = self._index._value_of
        was, now = None if old is None else value_of(old), None if new is None else value_of(new)
        if was == now:
            return
        if was is not None:
            self._left.append((was, key))
        if now is not None:
            self._joined.setdefault(now, {})[key] = None

    def apply(self) -> None:
        groups = self._index._groups
        for value, key in self._left:
            del groups[value][key]
            if not groups[value]:
                del groups[value]
        for value, keys in self._joined.items():
            if value in groups:
                groups[value].update(keys)
            else:
                groups[value] = keys
