"""Reads that run at the same time. Where one fails the others are cancelled.

Its error is raised when they have ended, as it is and not in an exception group: a caller handles it like the error
of a single read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Final, TypeAlias, TypeVar, overload

T = TypeVar("T")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
T4 = TypeVar("T4")
T5 = TypeVar("T5")
AT_ONCE: Final = 20
"""Reads of `for_each` that run at the same time: fewer than the server answers at once, so none waits for its turn so
long that it fails."""
Read: TypeAlias = Coroutine[object, None, T]


@asynccontextmanager
async def scope() -> AsyncIterator[asyncio.TaskGroup]:
    """A task group that raises one error by itself and not in a group: the block's own, or the first of a task."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None


@overload
async def side_by_side(one: Read[T1], two: Read[T2], /) -> tuple[T1, T2]: ...
@overload
async def side_by_side(one: Read[T1], two: Read[T2], three: Read[T3], /) -> tuple[T1, T2, T3]: ...
@overload
async def side_by_side(
    one: Read[T1], two: Read[T2], three: Read[T3], four: Read[T4], five: Read[T5], /
) -> tuple[T1, T2, T3, T4, T5]: ...
@overload
async def side_by_side(*reads: Read[T]) -> tuple[T, ...]: ...
async def side_by_side(*reads: Read[object]) -> tuple[object, ...]:
    """The results of all reads, in the order of the arguments. Raises the error of the first read that fails, after
    the others were cancelled."""
    async with scope() as group:
        tasks = [group.create_task(one) for one in reads]
    return tuple(task.result() for task in tasks)


async def for_each(items: Iterable[T1], read: Callable[[T1], Read[T]]) -> tuple[T, ...]:
    """What `read` returns for each of `items`, however many these are, in their order. Raises as `side_by_side`."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(item: T1) -> T:
        async with turns:
            return await read(item)

    return await side_by_side(*map(one, items))
