"""What one stage of the planner hands on: what is to be done, and what users are to be told."""

from __future__ import annotations

from controller.api.base import Value
from controller.planner.actions import Action


class Note(Value):
    """Something that a user should read: it becomes an Event on the DaemonSet."""

    warning: bool
    reason: str
    message: str
    once: bool = False
    """Not said again within some minutes, though it is no warning."""
    of_rollout: bool = False
    """It is about the rollout as a whole, and is not to be lost among those about its pods."""


class Step(Value):
    """What one stage wants."""

    actions: tuple[Action, ...] = ()
    notes: tuple[Note, ...] = ()
    wake_at: float | None = None
    """Seconds since 1970: look again then, even if nothing happens."""
    more: bool = False
    """There is more to do once the caches show what these actions did, or once more pods are available."""
    again: bool = False
    """What these actions do brings no event: once they went well, the next pass goes on at once."""
