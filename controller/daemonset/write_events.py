"""Makes the note about one write, which becomes an Event on the DaemonSet."""

from __future__ import annotations

from typing import Final, assert_never

import msgspec

from controller.api import wellknown
from controller.api.text import shortened
from controller.planner import actions
from controller.planner.manifest import without_child_names
from controller.planner.step import Note

MOST_WARNINGS: Final = 5
AGAIN_SECONDS: Final = 3600.0
"""Seconds before a warning of the server is told again."""
LONGEST_WARNING: Final = 512


def success(action: actions.Action) -> Note | None:
    """The note about a write that was done; None: there is none."""
    match action:
        case actions.CreatePod(name=name):
            return _told(wellknown.SUCCESSFUL_CREATE, f"Created pod: {name}")
        case actions.DeletePod(name=name):
            return _told(wellknown.SUCCESSFUL_DELETE, f"Deleted pod: {name}")
        case actions.UpdateInPlace(name=name):
            return _told(wellknown.UPDATED_IN_PLACE, f"successfully update pod {name} in-place")
        case actions.PrepareDelete(name=name, held_by=held_by):
            return _told(wellknown.PREPARED_DELETE, f"Pod {name} is held before its deletion by {held_by}")
        case actions.CancelDelete(name=name):
            return _told(wellknown.CANCELLED_DELETE, f"Pod {name} stays: nothing wants it deleted any more")
        case actions.DrainPod() | actions.ContinueInPlace() | actions.ResizePod() | actions.OpenGates():
            return None  # parts of an update in place
        case actions.AdoptPod() | actions.ReleasePod() | actions.RelabelPod() | actions.ProbeTemplate():
            return None
        case actions.CreateRevision() | actions.OnRevision():
            return None
        case _:
            assert_never(action)


def failure(action: actions.InDoubt, words: str) -> Note | None:
    """The note about a failed write, with the message of the server; None: only the condition Degraded reports it."""
    match action:
        case actions.CreatePod():
            return _warned(wellknown.FAILED_CREATE, f"Error creating: {words}")
        case actions.DeletePod() | actions.PrepareDelete():
            return _warned(wellknown.FAILED_DELETE, f"Error deleting: {words}")
        case actions.UpdateInPlace(name=name, revision=revision):
            text = f"failed to update pod {name} in-place(revision {revision.hash}): {words}"
            return _warned(wellknown.FAILED_IN_PLACE, text)
        case actions.DrainPod():
            return None
        case _:
            assert_never(action)


class ServerWarnings(msgspec.Struct):
    """The warnings that the server has added to its answers, and that were told of one object: each of them once in
    an hour, and no more than `MOST_WARNINGS`, however many pods they are about."""

    told: dict[str, float] = msgspec.field(default_factory=dict)
    """When (`elapsed`), by what it says."""

    def note(self, owner: str, text: str, moment: float) -> Note | None:
        """The note about a warning; None: it is not told now. `owner` is the name of the object whose pods it may
        name."""
        message = shortened(without_child_names(text, owner), LONGEST_WARNING)
        self.told = {one: at for one, at in self.told.items() if moment - at < AGAIN_SECONDS}
        if message in self.told or len(self.told) >= MOST_WARNINGS:
            return None
        self.told[message] = moment
        return _warned(wellknown.SERVER_WARNING, message)


def _told(reason: str, message: str) -> Note:
    return Note(warning=False, reason=reason, message=message)


def _warned(reason: str, message: str) -> Note:
    return Note(warning=True, reason=reason, message=message)
