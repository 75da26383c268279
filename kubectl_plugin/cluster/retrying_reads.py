"""How long a failing read is retried. A failure on the way to the server may pass; a request that the server itself
refuses will be refused again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from controller.kube.errors import ApiError, Forbidden

T = TypeVar("T")

POLL: Final = 2.0
"""Seconds between two reads of what cannot be watched."""
PATIENCE: Final = 30.0
"""Seconds for which a failing read is tried again."""


def is_from_proxy(error: ApiError) -> bool:
    """Whether the answer came from a load balancer or a proxy: the API server itself always gives a reason."""
    return error.status != 0 and not error.reason


def right_is_missing(error: ApiError) -> bool:
    """Whether the API server itself has refused for want of a right, which only an administrator can grant."""
    return isinstance(error, Forbidden) and not is_from_proxy(error)


async def read_with_patience(
    read: Callable[[], Awaitable[T]],
    tell: Callable[[str], None],
    passes: Callable[[ApiError], bool] = lambda error: not right_is_missing(error),
) -> T:
    """The result of `read`, which is tried again for up to `PATIENCE` seconds while `passes` holds for its error.

    `tell` is told the first error, once. Raises the last ApiError.
    """
    loop = asyncio.get_running_loop()
    until, told = loop.time() + PATIENCE, False
    while True:
        try:
            return await read()
        except ApiError as error:
            if not passes(error) or loop.time() >= until:
                raise
            if not told:
                tell(f"{error}; retrying")
            told = True
        await asyncio.sleep(POLL)  # after a failure
