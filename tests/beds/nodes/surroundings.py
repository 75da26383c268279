"""What a pod's worker has of its node."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from controller.runtime.clock import Clock
from tests.beds.nodes.behaviour import Behaviour
from tests.beds.nodes.puller import Tell
from tests.beds.nodes.room import Room

Object: TypeAlias = dict[str, Any]


class Interrupted(Exception):
    """The pod is to go, or the node does nothing any more."""


@dataclass(frozen=True)
class Surroundings:
    """Functions, because all of it may change while the worker is at work."""

    newest: Callable[[], Object]
    """The pod as the watch shows it."""
    news: asyncio.Event
    """Set when that has changed, or the node's behaviour."""
    behaviour: Callable[[], Behaviour | None]
    images: set[str]
    """Those that the node has."""
    began: Callable[[Object, Object], None]
    """A container of the pod was started: the pod as it was then, and the container."""
    room: Callable[[], Room]
    """What other pods leave on the node."""
    write: Callable[[Object], Awaitable[None]]
    """A status of the pod."""
    tell: Tell
    clock: Clock

    def check(self) -> Behaviour:
        """How the node behaves. Raises Interrupted."""
        behaviour = self.behaviour()
        if behaviour is None or behaviour.dead or self.newest()["metadata"].get("deletionTimestamp"):
            raise Interrupted
        return behaviour
