"""Virtual time that starts at 1000.0, so that a forgotten "now" (0.0) is told from the first moment."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

from tests.virtual_time import VirtualLoop

__all__ = ["VirtualLoop", "now", "virtually"]

T = TypeVar("T")


def virtually(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` on a loop of its own in virtual time."""
    with asyncio.Runner(loop_factory=partial(VirtualLoop, 1000.0)) as runner:
        return runner.run(main)


def now() -> float:
    return asyncio.get_running_loop().time()
