"""Makes the note about one write, which becomes an Event on the DaemonSet."""

from __future__ import annotations

from typing import assert_never

from controller.api import wellknown
from controller.planner import actions
from controller.planner.step import Note


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


def _told(reason: str, message: str) -> Note:
    return Note(warning=False, reason=reason, message=message)


def _warned(reason: str, message: str) -> Note:
    return Note(warning=True, reason=reason, message=message)
