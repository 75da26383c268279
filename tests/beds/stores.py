"""A store, and a key of a work queue, for one test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import TypeVar

from controller.runtime.store import Record, Store, StoreWriter
from controller.runtime.workqueue import WorkItem, WorkQueue

T = TypeVar("T", bound=Record)


def open_store(of: type[T]) -> tuple[StoreWriter[T], Store[T]]:
    """A store for records of type `of`, and its one writer."""
    store = Store[T]()
    return store.writers[""], store


K = TypeVar("K", bound=Hashable)


@asynccontextmanager
async def taken_from(queue: WorkQueue[K]) -> AsyncIterator[WorkItem[K]]:
    taken = await queue.get()
    try:
        yield taken
    finally:
        queue.done(taken)
