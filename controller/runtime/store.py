"""Finds the objects of a store by one of their values, such as the node of a pod.

The cache of one resource: one reflector writes it for each namespace, everybody reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, ItemsView, Iterator, Mapping, Sequence, ValuesView
from itertools import chain
from types import MappingProxyType
from typing import Generic, NamedTuple, Never, Protocol, TypeVar

from controller.api.objects import Key, Value
from controller.kube.decode import Bookmark, Malformed, Seen
from controller.runtime.expectations import CacheProgress
from controller.runtime.watch import Init

Item = TypeVar("Item")
V = TypeVar("V", bound=Hashable)


class Index(Generic[V, Item]):
    """Objects grouped by a value, of which each object has at most one. Made by `Store.index`."""

    def __init__(self, value_of: Callable[[Item], V | None]) -> None:
        self._value_of = value_of
        self._groups: dict[V, dict[Key, Item]] = {}

    def get(self, value: V) -> Mapping[Key, Item]:
        """The objects that have `value`. This is the live group: do not keep it across an await."""
        return self._groups.get(value) or _NOTHING

    def values(self) -> Sequence[V]:
        """All values that at least one object has."""
        return list(self._groups)

    def move(self, key: Key, old: Item | None, new: Item | None) -> None:
        """Regroup the object of this key, which was `old` and is `new`. Only the store calls this."""
        was = None if old is None else self._value_of(old)
        now = None if new is None else self._value_of(new)
        if was is not None and was != now:
            group = self._groups[was]
            del group[key]
            if not group:
                del self._groups[was]
        if now is not None and new is not None:
            group = self._groups.get(now) or self._groups.setdefault(now, {})
            group[key] = new


_NOTHING: Mapping[Key, Never] = MappingProxyType({})


class Record(Protocol):
    """The fields that every cached object has."""

    @property
    def uid(self) -> str: ...
    @property
    def version(self) -> str: ...


T = TypeVar("T", bound=Record)


class Change(Value, Generic[T]):
    """One object changed. `old` None: it is new to us. `new` None: it is gone, or no longer ours.

    `old is new`: it has become malformed, or is so no more. That is told before the change that makes it readable or
    removes it. Both are None if it was never readable.

    `old` is always what readers saw before, even if the deletion itself was missed and a list showed it. Both have
    the same uid: another object of the same name comes as two changes.
    """

    key: Key
    old: T | None
    new: T | None


class _Content(Generic[T]):
    """What the store and its writers share. Only writers change it."""

    def __init__(self) -> None:
        self.objects: dict[Key, T] = {}
        self.movers: list[Callable[[Key, T | None, T | None], None]] = []
        self.reached: dict[str, CacheProgress] = {}
        self.unfilled: set[str] = set()
        self.malformed: dict[Key, str] = {}

    def replace(self, key: Key, old: T | None, new: T | None) -> None:
        if new is not None:
            self.objects[key] = new
        elif old is not None:
            del self.objects[key]
        for move in self.movers:
            move(key, old, new)


class Store(Generic[T]):
    """The objects of one resource by key, as the server showed them. The contract:

    - The states of one object appear in order, though some may be missing. Between objects no order is promised.
    - A value is frozen, and may be old. What you have just written is not there yet: see `progress_in`.
    - An incomplete list changes nothing. All of a complete one is found from one moment on, in store and indexes; an
      object that is missing from it counts as deleted. `Reach.version` becomes that of the list at the same moment.
    - An object that cannot be decoded keeps its last good state; its key is in `malformed` until it can be again, or
      is gone.

    Store and indexes need no locks because nothing awaits while they change. For the same reason, do not keep what
    `values`, `items` or an index return across an await. Listeners hear of a change after readers find it: of a list
    object by object, while other tasks run. What a reader must find together with a change is kept by `follow`.
    """

    def __init__(self, content: _Content[T]) -> None:
        self._content, self._objects = content, content.objects

    def progress_in(self, namespace: str) -> CacheProgress:
        """How far the cache has come for objects of this namespace."""
        reached = self._content.reached
        return reached[namespace] if namespace in reached else reached.get("", CacheProgress())

    @property
    def filled(self) -> bool:
        """Whether the first list is complete, in every namespace."""
        return not self._content.unfilled

    @property
    def malformed(self) -> Mapping[Key, str]:
        """The objects whose latest state could not be decoded, each with the reason."""
        return self._content.malformed

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
        """A new index by `value_of`, kept up to date from now on. An object whose value is None is not in it.

        `value_of` must be cheap and depend on the object alone: it is called again when the object goes.
        """
        index: Index[V, T] = Index(value_of)
        for key, obj in self._objects.items():
            index.move(key, None, obj)
        self.follow(index.move)
        return index

    def follow(self, move: Callable[[Key, T | None, T | None], None]) -> None:
        """Call `move` from now on with the key, the old and the new state of each object that changes, while no
        reader can find the one without the other. It must be cheap; old and new may differ in their uid."""
        self._content.movers.append(move)


class StoreWriter(Generic[T]):
    """The only way to change a store, or its part in one namespace. Only a reflector has one."""

    def __init__(self, content: _Content[T], namespace: str) -> None:
        """With `namespace` "", this writer writes the whole store."""
        self._content, self._namespace = content, namespace
        self._filling: dict[Key, Seen[T] | Malformed] | None = None
        self._asked = float("-inf")
        content.reached[namespace] = CacheProgress()
        content.unfilled.add(namespace)

    def asked(self, moment: float) -> None:
        """A list was requested at `moment` (`elapsed`): the one between the next Init and its `swap`."""
        self._asked = moment

    def feed(self, event: Init | Seen[T] | Malformed | Bookmark) -> Sequence[Change[T]]:
        """Take in one event; returns the changes it made. Between Init and `swap` readers see no change."""
        match event:
            case Seen() | Malformed():
                if self._filling is None:
                    self._advance(event.version)
                    if changes := self._changes_by(event):
                        self._put(event)
                    return changes
                if isinstance(event, Seen) and event.obj is None:
                    self._filling.pop(event.key, None)
                else:
                    self._filling[event.key] = event
                return ()
            case Bookmark(version=version):
                if self._filling is None:
                    self._advance(version)
                return ()
            case Init():
                self._filling = {}
                return ()

    def swap(self, version: str) -> Iterator[Sequence[Change[T]]]:
        """Take in the complete list, as of `version`. Iterate to the end: the first steps compare one object each and
        yield nothing, then all that differs is replaced at once, and each further step yields what that changed of
        one object. Other tasks may run between two steps: nobody else changes objects of this namespace.
        """
        listed, self._filling = self._filling or {}, None
        content, namespace = self._content, self._namespace
        absent, differing, changes = list[Seen[T]](), list[Seen[T] | Malformed](), list[Change[T]]()
        for key in (*content.objects, *(key for key in content.malformed if key not in content.objects)):
            if key not in listed and (not namespace or key.namespace == namespace):
                absent.append(Seen(key=key, version="", obj=None))
            yield ()
        for item in chain(absent, listed.values()):
            if found := self._changes_by(item):
                differing.append(item)
                changes += found
            yield ()
        for item in differing:
            self._put(item)
        content.reached[namespace] = CacheProgress(listed=self._asked)  # may go back, after a backup was restored
        content.unfilled.discard(namespace)
        self._advance(version)
        del listed, absent, differing
        for change in changes:
            yield (change,)

    @property
    def filled(self) -> bool:
        """Whether the first list of this namespace is complete."""
        return self._namespace not in self._content.unfilled

    def _changes_by(self, item: Seen[T] | Malformed) -> tuple[Change[T], ...]:
        """The changes if `item` is put in place of what is known; none if it is the same."""
        content, key = self._content, item.key
        old = content.objects.get(key)
        if isinstance(item, Malformed):
            return () if content.malformed.get(key) == item.reason else (Change(key=key, old=old, new=old),)
        new = item.obj
        turned = (Change(key=key, old=old, new=old),) if key in content.malformed else ()
        if _is_same(old, new):
            return turned
        if old is not None and new is not None and old.uid != new.uid:
            return (*turned, Change(key=key, old=old, new=None), Change(key=key, old=None, new=new))
        return (*turned, Change(key=key, old=old, new=new))

    def _put(self, item: Seen[T] | Malformed) -> None:
        content, key = self._content, item.key
        if isinstance(item, Malformed):
            content.malformed[key] = item.reason
            return
        content.malformed.pop(key, None)
        old, new = content.objects.get(key), item.obj
        if not _is_same(old, new):
            content.replace(key, old, new)

    def _advance(self, version: str) -> None:
        if version.isdigit():
            reached, number = self._content.reached, int(version)
            before = reached[self._namespace]
            if number > before.version:
                reached[self._namespace] = CacheProgress(version=number, listed=before.listed)


def _is_same(old: Record | None, new: Record | None) -> bool:
    if old is None or new is None:
        return old is new
    return (old.uid, old.version) == (new.uid, new.version)


class ScopedStore(NamedTuple, Generic[T]):
    """A store and its writers, one for each namespace."""

    writers: Mapping[str, StoreWriter[T]]
    store: Store[T]


def open_scoped_store(of: type[T], namespaces: Sequence[str]) -> ScopedStore[T]:
    """One store that several reflectors fill, each from its own namespace; a list touches only objects there. Each
    namespace has one writer: ValueError if it is there twice."""
    if len(set(namespaces)) < len(namespaces):
        raise ValueError(f"a namespace is there twice: {', '.join(namespaces)}")
    content: _Content[T] = _Content()
    return ScopedStore({namespace: StoreWriter(content, namespace) for namespace in namespaces}, Store(content))
