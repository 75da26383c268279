"""What failed before: left alone for a while, then tried again behind everything that never failed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from zlib import crc32

from controller.planner.place import Place
from controller.planner.slot import Slot
from controller.planner.world import World

RETRIES = 5
"""Nodes where a write failed before that one pass tries again: as many failures as it may come to, however many there
are. The others come in the passes after it."""
NEXT_RETRIES = 1.0
"""Seconds: no pass comes sooner only for the sake of what failed, and none later while other nodes are untried."""


def has_failed(world: World) -> bool:
    """Whether some write is known to have failed and not to have gone well since."""
    return bool(world.held_back or world.due_again)


def is_unanswered(world: World, *places: Place) -> bool:
    """Whether the server has not answered a write at one of these places yet."""
    awaited = world.awaited
    return bool(awaited) and any(place in awaited for place in places)


def others_first(
    world: World, slots: Iterable[Slot], place_of: Callable[[Slot], Place], *, scattered: bool = False
) -> list[Slot]:
    """`slots` in their order, but those whose place failed before come last, longest due first, at most `RETRIES`.

    A node that fails for ever takes neither a turn nor a part of the budget from one that would not. `scattered`:
    while something fails, the others come in an order that has nothing to do with names: nodes of one kind fail
    together and often have neighbouring names.
    """
    due = world.due_again
    if not due and not (scattered and world.held_back):
        return list(slots)
    others = [slot for slot in slots if place_of(slot) not in due]
    again = sorted((slot for slot in slots if place_of(slot) in due), key=lambda slot: due[place_of(slot)])
    if scattered:
        others.sort(key=lambda slot: crc32(slot.node.encode()))
    return others + again[:RETRIES]


def next_retry(world: World) -> float | None:
    """When the next place that is left alone may be tried again, in seconds since 1970; None: there is none."""
    moments = [until for until in world.held_back.values() if until < inf]
    return max(min(moments), world.now + NEXT_RETRIES) if moments else None
