"""What users are told of one write, as an Event on the DaemonSet."""

from __future__ import annotations

from typing import assert_never

from controller.api.wellknown import (
    CANCELLED_DELETE,
    FAILED_CREATE,
    FAILED_DELETE,
    FAILED_IN_PLACE,
    PREPARED_DELETE,
    SUCCESSFUL_CREATE,
    SUCCESSFUL_DELETE,
    UPDATED_IN_PLACE,
)
from controller.planner.actions import (
    Action,
    AdoptPod,
    CancelDelete,
    ContinueInPlace,
    CreatePod,
    CreateRevision,
    DeletePod,
    DrainPod,
    OnRevision,
    OpenGates,
    PrepareDelete,
    ProbeTemplate,
    RelabelPod,
    ReleasePod,
    ResizePod,
    UpdateInPlace,
)
from controller.planner.step import Note


def success(action: Action) -> Note | None:
    """What users are told of a write that was done; None: nothing."""
    match action:
        case CreatePod(name=name):
            return Note(warning=False, reason=SUCCESSFUL_CREATE, message=f"Created pod: {name}")
        case DeletePod(name=name):
            return Note(warning=False, reason=SUCCESSFUL_DELETE, message=f"Deleted pod: {name}")
        case UpdateInPlace(name=name):
            return Note(warning=False, reason=UPDATED_IN_PLACE, message=f"successfully update pod {name} in-place")
        case PrepareDelete(name=name):
            text = f"Pod {name} is held before its deletion by {action.held_by}"
            return Note(warning=False, reason=PREPARED_DELETE, message=text)
        case CancelDelete(name=name):
            text = f"Pod {name} stays: nothing wants it deleted any more"
            return Note(warning=False, reason=CANCELLED_DELETE, message=text)
        case AdoptPod() | ReleasePod() | RelabelPod() | ProbeTemplate() | CreateRevision() | OnRevision():
            return None
        case DrainPod() | ContinueInPlace() | ResizePod() | OpenGates():
            return None  # parts of an update in place
        case _:
            assert_never(action)


def failure(action: Action, words: str) -> Note | None:
    """What users are told of a write that failed, with the server's `words`; None: the condition Degraded alone tells
    it."""
    match action:
        case CreatePod():
            return Note(warning=True, reason=FAILED_CREATE, message=f"Error creating: {words}")
        case DeletePod() | PrepareDelete():
            return Note(warning=True, reason=FAILED_DELETE, message=f"Error deleting: {words}")
        case UpdateInPlace(name=name, revision=revision):
            text = f"failed to update pod {name} in-place(revision {revision.hash}): {words}"
            return Note(warning=True, reason=FAILED_IN_PLACE, message=text)
        case AdoptPod() | ReleasePod() | RelabelPod() | ProbeTemplate() | CreateRevision() | OnRevision():
            return None
        case CancelDelete() | DrainPod() | ContinueInPlace() | ResizePod() | OpenGates():
            return None
        case _:
            assert_never(action)
