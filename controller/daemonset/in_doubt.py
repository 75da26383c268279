"""Writes that count as done as long as they may yet be: the server has not answered them, or the answer was lost."""

from __future__ import annotations

from typing import TypeAlias, assert_never

from controller.planner.actions import (
    Action,
    AdoptPod,
    CancelDelete,
    ContinueInPlace,
    CreatePod,
    DeletePod,
    DrainPod,
    OpenGates,
    PrepareDelete,
    ProbeTemplate,
    RelabelPod,
    ReleasePod,
    ResizePod,
    RevisionAction,
    UpdateInPlace,
)

Unready: TypeAlias = DrainPod | PrepareDelete | UpdateInPlace
"""What may have made a pod unavailable that runs on."""
InDoubt: TypeAlias = CreatePod | DeletePod | Unready


def in_doubt(action: Action) -> InDoubt | None:
    """The action, if it makes a node unavailable or gives it a pod."""
    if isinstance(action, InDoubt):
        return action
    if isinstance(action, AdoptPod | ReleasePod | RelabelPod | CancelDelete | ProbeTemplate | RevisionAction):
        return None
    if isinstance(action, ContinueInPlace | ResizePod | OpenGates):
        return None
    assert_never(action)
