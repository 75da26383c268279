"""`status` of the sample DaemonSet, once or with -w, and what happens while one looks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager

from tests.plugin.scene import NAME, NAMESPACE, PACE, Scene

Opened = Callable[[], AbstractContextManager[Scene]]

STATUS = ("status", NAME, "-n", NAMESPACE)
WATCH = (*STATUS, "-w")


async def recovers(scene: Scene) -> None:
    """c-03 gets ready after 20 s."""
    await asyncio.sleep(20.0)
    scene.nodes.behave("c-03", PACE)


async def all_recovers(scene: Scene) -> None:
    await recovers(scene)
    await asyncio.sleep(60.0)
    scene.nodes.behave("c-04", PACE)
