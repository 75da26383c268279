"""A key of a work queue that is processed during a block."""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import TypeVar

from controller.runtime.workqueue import WorkItem, WorkQueue

K = TypeVar("K", bound=Hashable)


@asynccontextmanager
async def taken_from(queue: WorkQueue[K]) -> AsyncIterator[WorkItem[K]]:
    taken = await queue.get()
    try:
        yield taken
    finally:
        queue.done(taken)
