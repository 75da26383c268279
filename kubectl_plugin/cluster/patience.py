"""How long an answer is waited for that does not come: what may come from somebody on the way passes, what the server
itself has said does not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from controller.kube.errors import ApiError, Forbidden

T = TypeVar("T")

POLL: Final = 2.0
"""Seconds between two reads where nothing can tell that another one is due."""
PATIENCE: Final = 30.0
"""Seconds for which a refusal may come from somebody else on the way, such as a load balancer."""


def from_between(error: ApiError) -> bool:
    """Whether somebody on the way has answered, such as a load balancer: the server itself gives a reason."""
    return error.status != 0 and not error.reason


def right_is_missing(error: ApiError) -> bool:
    """The server's own word: it stays so until an administrator comes."""
    return isinstance(error, Forbidden) and not from_between(error)


async def at_last(
    read: Callable[[], Awaitable[T]],
    tell: Callable[[str], None],
    passes: Callable[[ApiError], bool] = lambda error: not right_is_missing(error),
) -> T:
    """What `read` gives, tried again while `passes` says so, `PATIENCE` at the most. Raises ApiError.

    `tell` is told once why it is.
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
                tell(f"{error}; trying on")
            told = True
        await asyncio.sleep(POLL)  # after a failure
