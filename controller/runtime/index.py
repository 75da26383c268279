"""Finds the objects of a store by one of their values, such as the node of a pod."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Generic, Never, TypeVar

from controller.api.meta import Key

T = TypeVar("T")
V = TypeVar("V", bound=Hashable)


class Index(Generic[V, T]):
    """Objects grouped by a value, of which each object has at most one. Made by `Store.index`."""

    def __init__(self, value_of: Callable[[T], V | None]) -> None:
        self._value_of = value_of
        self._groups: dict[V, dict[Key, T]] = {}

    def get(self, value: V) -> Mapping[Key, T]:
        """The objects that have `value`. This is the live group: do not keep it across an await."""
        return self._groups.get(value) or _NOTHING

    def values(self) -> Sequence[V]:
        """All values that at least one object has."""
        return list(self._groups)

    def move(self, key: Key, old: T | None, new: T | None) -> None:
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
