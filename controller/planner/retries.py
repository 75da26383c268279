"""Retries at places where writes failed: after a while, and after everything that never failed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from zlib import crc32

from controller.planner.place import Place
from controller.planner.slot import Slot
from controller.planner.world import World

RETRIES = 5
"""Failed nodes that one pass tries again, so that it has no more failures than this; the others come later."""
NEXT_RETRIES = 1.0
"""Seconds between passes that only retry failed writes. While some nodes were not tried yet, the next pass comes at
the latest after this time."""


def has_failed(world: World) -> bool:
    """Whether a write has failed and has not succeeded since."""
    return bool(world.held_back or world.due_again)


def is_unanswered(world: World, *places: Place) -> bool:
    """Whether a write at one of these places is still unanswered."""
    awaited = world.awaited
    return bool(awaited) and any(place in awaited for place in places)


def others_first(
    world: World, slots: Iterable[Slot], place_of: Callable[[Slot], Place], *, scattered: bool = False
) -> list[Slot]:
    """`slots` in order, but those whose place has failed come last, at most `RETRIES`, the longest due first.

    So a node that always fails takes no turn and no budget from others. `scattered`: while something fails, others
    are ordered by a checksum of their names, because nodes of one kind fail together and have similar names.
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
    """The earliest end of a wait (seconds since 1970): of a place that is held back, or of a node whose pods do not
    last; None: there is none."""
    held = [until for until in world.held_back.values() if until < inf]
    retry = [max(min(held), world.now + NEXT_RETRIES)] if held else []
    ends = (end for ends in (world.not_before, world.short_lived) for end in ends.values() if end > world.now)
    return min([*retry, *ends], default=None)
