"""The cache of one resource: one reflector writes it for each namespace, everybody reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, ItemsView, Iterator, Mapping, Sequence, ValuesView
from typing import Generic, NamedTuple, Protocol, TypeVar

from controller.api.base import Value
from controller.api.meta import Key
from controller.kube.decode import Bookmark, Malformed, Seen
from controller.runtime.freshness import Reach
from controller.runtime.index import Index
from controller.runtime.watch import Init


class Record(Protocol):
    """The fields that every cached object has."""

    @property
    def uid(self) -> str: ...
    @property
    def version(self) -> str: ...


T = TypeVar("T", bound=Record)
V = TypeVar("V", bound=Hashable)


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
        self.reached: dict[str, Reach] = {}
        self.unfilled: set[str] = set()
        self.malformed: dict[Key, str] = {}
        self.swapping: set[str] = set()
        self.swapped = asyncio.Event()

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
    - A value is frozen, and may be old. What you have just written is not there yet: see `reach_in`.
    - An incomplete list changes nothing. A complete one is applied object by object, and other tasks run in between:
      wait for `whole` to see all objects as of one moment. An object that is missing from the list counts as deleted.
      `Reach.version` becomes that of the list when all of it has been taken in.
    - An object that cannot be decoded keeps its last good state; its key is in `malformed` until it can be again, or
      is gone.

    Store, indexes and listeners need no locks because nothing awaits between a change and its last listener: no
    reader finds a change of which its listener has not heard. For the same reason, do not keep what `values`, `items`
    or an index return across an await.
    """

    def __init__(self, content: _Content[T]) -> None:
        self._content, self._objects = content, content.objects

    def reach_in(self, namespace: str) -> Reach:
        """How far the cache has come for objects of this namespace."""
        reached = self._content.reached
        return reached[namespace] if namespace in reached else reached.get("", Reach())

    @property
    def filled(self) -> bool:
        """Whether the first list is complete, in every namespace."""
        return not self._content.unfilled

    @property
    def is_whole(self) -> bool:
        """Whether no list is only partly applied."""
        return not self._content.swapping

    async def whole(self) -> None:
        """Wait until `is_whole`, which holds until the next await. The wait is short, because it needs no request."""
        while self._content.swapping:
            self._content.swapped.clear()
            await self._content.swapped.wait()

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
        self._content.movers.append(index.move)
        return index


class StoreWriter(Generic[T]):
    """The only way to change a store, or its part in one namespace. Only a reflector has one."""

    def __init__(self, content: _Content[T], namespace: str) -> None:
        """With `namespace` "", this writer writes the whole store."""
        self._content, self._namespace = content, namespace
        self._filling: dict[Key, Seen[T] | Malformed] | None = None
        self._asked = float("-inf")
        content.reached[namespace] = Reach()
        content.unfilled.add(namespace)

    def asked(self, moment: float) -> None:
        """A list was requested at `moment` (`elapsed`): the one between the next Init and its `swap`."""
        self._asked = moment

    def feed(self, event: Init | Seen[T] | Malformed | Bookmark) -> Sequence[Change[T]]:
        """Take in one event; returns the changes it made. Between Init and `swap` readers see no change."""
        match event:
            case Seen():
                if self._filling is None:
                    self._advance(event.version)
                    return self._settle(event.key, event.obj)
                if event.obj is None:
                    self._filling.pop(event.key, None)
                else:
                    self._filling[event.key] = event
                return ()
            case Malformed():
                if self._filling is not None:
                    self._filling[event.key] = event
                    return ()
                self._advance(event.version)
                return self._unreadable(event)
            case Bookmark(version=version):
                if self._filling is None:
                    self._advance(version)
                return ()
            case Init():
                self._filling = {}
                return ()

    def swap(self, version: str) -> Iterator[Sequence[Change[T]]]:
        """Take in the complete list, as of `version`. Iterate to the end: each step takes in one object and yields
        what that changed, mostly nothing. Other tasks may run between two steps, see `Store.whole`.
        """
        told, self._filling = self._filling or {}, None
        content, namespace = self._content, self._namespace
        content.swapping.add(namespace)
        for key in (*content.objects, *content.malformed):
            if key not in told and (not namespace or key.namespace == namespace):
                yield self._settle(key, None)
            else:
                yield ()
        for key, item in told.items():
            yield self._unreadable(item) if isinstance(item, Malformed) else self._settle(key, item.obj)
        content.reached[namespace] = Reach(listed=self._asked)  # may go back, after a backup was restored
        content.unfilled.discard(namespace)
        self._advance(version)
        content.swapping.remove(namespace)
        content.swapped.set()

    @property
    def filled(self) -> bool:
        """Whether the first list of this namespace is complete."""
        return self._namespace not in self._content.unfilled

    def _unreadable(self, event: Malformed) -> Sequence[Change[T]]:
        content, key = self._content, event.key
        known = content.malformed.get(key) == event.reason
        content.malformed[key] = event.reason
        old = content.objects.get(key)
        return () if known else (Change(key=key, old=old, new=old),)

    def _settle(self, key: Key, new: T | None) -> Sequence[Change[T]]:
        content = self._content
        old = content.objects.get(key)
        if content.malformed and content.malformed.pop(key, None) is not None:
            return (Change(key=key, old=old, new=old), *self._settle(key, new))
        if old is None:
            if new is None:
                return ()
        elif new is not None:
            if old.uid != new.uid:
                content.replace(key, old, new)
                return (Change(key=key, old=old, new=None), Change(key=key, old=None, new=new))
            if old.version == new.version:
                return ()
        content.replace(key, old, new)
        return (Change(key=key, old=old, new=new),)

    def _advance(self, version: str) -> None:
        if version.isdigit():
            reached, number = self._content.reached, int(version)
            before = reached[self._namespace]
            if number > before.version:
                reached[self._namespace] = Reach(version=number, listed=before.listed)


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
