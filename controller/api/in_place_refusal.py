"""Names for what speaks against an update in place; the sentences are the planner's."""

from __future__ import annotations

from enum import StrEnum


class InPlaceRefusal(StrEnum):
    """Why a pod is recreated although an update in place was asked for, as metrics name it."""

    TEMPLATE = "Template"
    """A field differs that no running pod takes."""
    RESOURCES = "Resources"
    """Likewise of resources, or cpu and memory are not to be changed in place."""
    RESIZE_REFUSED = "ResizeRefused"
    RESTART = "Restart"
    READINESS_GATE = "ReadinessGate"
    """The pod was made without."""
    NODE_AGENT = "NodeAgent"
    """None restarts a container that reads changed metadata: there is none, or it is not to be relied on."""
    OTHER = "Other"
