"""A store for one test, and who fills it."""

from __future__ import annotations

from typing import TypeVar

from controller.runtime.store import Record, Store, StoreWriter

T = TypeVar("T", bound=Record)


def open_store(of: type[T]) -> tuple[StoreWriter[T], Store[T]]:
    """A store for records of type `of`, and its one writer."""
    store = Store[T]()
    return store.writers[""], store
