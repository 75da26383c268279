"""Views of the containers of a pod: what the spec asks for and what the status reports."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from controller.api.base import View

Amounts: TypeAlias = dict[str, str | int | float]
"""Quantities by name of the resource."""


class ResourcesView(View):
    limits: Amounts | None = None
    requests: Amounts | None = None


class ProbeView(View):
    """A probe. Only whether there is one matters here."""


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
    message: str = ""
    container_id: str = msgspec.field(default="", name="containerID")


class ContainerStateView(View):
    waiting: WaitingView | None = None
    running: RunningView | None = None
    terminated: TerminatedView | None = None


class ContainerStatusView(View):
    name: str = ""
    ready: bool = False
    image: str = ""
    """Any name by which the node knows the image; not always the one in the spec."""
    image_id: str = msgspec.field(default="", name="imageID")
    container_id: str = msgspec.field(default="", name="containerID")
    """The id of the container that runs or ran last; empty before the first."""
    restart_count: int = 0
    state: ContainerStateView | None = None
    last_state: ContainerStateView | None = None
    resources: ResourcesView | None = None
    """The resources that the container really has; None: the node does not report them."""
