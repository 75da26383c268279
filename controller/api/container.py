"""Containers of a pod: what its spec asks for and what its status tells."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from controller.api.base import View

Amounts: TypeAlias = dict[str, str | int | float]
"""Name of a resource to a quantity."""


class ResourcesView(View):
    limits: Amounts | None = None
    requests: Amounts | None = None


class ProbeView(View):
    """What it asks does not matter here."""


class ResizePolicyView(View):
    resource_name: str = ""
    restart_policy: str = ""


class ContainerView(View):
    name: str = ""
    image: str = ""
    resources: ResourcesView | None = None
    resize_policy: tuple[ResizePolicyView, ...] | None = None
    readiness_probe: ProbeView | None = None


class WaitingView(View):
    reason: str = ""
    message: str = ""


class RunningView(View):
    started_at: str | None = None


class TerminatedView(View):
    exit_code: int = 0
    reason: str = ""
    container_id: str = msgspec.field(default="", name="containerID")


class ContainerStateView(View):
    waiting: WaitingView | None = None
    running: RunningView | None = None
    terminated: TerminatedView | None = None


class ContainerStatusView(View):
    name: str = ""
    ready: bool = False
    image: str = ""
    """Any of the names that the node knows the image by, not the one that the spec says."""
    image_id: str = msgspec.field(default="", name="imageID")
    container_id: str = msgspec.field(default="", name="containerID")
    """Of the one that runs or ran last; empty before the first."""
    restart_count: int = 0
    state: ContainerStateView | None = None
    last_state: ContainerStateView | None = None
    resources: ResourcesView | None = None
    """What the container really has; None: the node does not tell."""
