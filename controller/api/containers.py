"""Containers of a pod: their spec, status, image names, and the problems from which they do not recover."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum
from functools import lru_cache
from sys import intern
from typing import Final, TypeAlias

import msgspec

from controller.api.formats import LONGEST_ITEM, truncated
from controller.api.objects import View

Amounts: TypeAlias = dict[str, str | int | float]


class ResourcesView(View):
    limits: Amounts | None = None
    requests: Amounts | None = None


class ProbeView(View):
    """Read only to see whether there is a probe."""


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


_NO_STATE = ContainerStateView()
_NOT_WAITING = WaitingView()


class ContainerStatusView(View):
    name: str = ""
    ready: bool = False
    image: str = ""
    """Any name by which the node knows the image, not always that of the spec."""
    image_id: str = msgspec.field(default="", name="imageID")
    container_id: str = msgspec.field(default="", name="containerID")
    """The id of the current or last container; empty before the first."""
    restart_count: int = 0
    state: ContainerStateView | None = None
    last_state: ContainerStateView | None = None
    resources: ResourcesView | None = None
    """The actual resources; None if the node does not report them."""

    @property
    def waiting(self) -> WaitingView:
        return (self.state or _NO_STATE).waiting or _NOT_WAITING

    @property
    def running(self) -> RunningView | None:
        return (self.state or _NO_STATE).running

    @property
    def ended(self) -> TerminatedView | None:
        """How this container or, failing that, its predecessor ended; None if neither has."""
        return (self.state or _NO_STATE).terminated or (self.last_state or _NO_STATE).terminated


HUB = "docker.io"


@lru_cache(16_384)  # most nodes of a cluster have the same images
def canonical(reference: str) -> str:
    """The full name of an image: `docker.io/library/nginx:latest` for `nginx`. A tag beside a digest is dropped."""
    name, at, digest = reference.partition("@")
    path, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:  # no tag, or a colon before a port
        path, tag = name, ""
    host, slash, rest = path.partition("/")
    if not slash or not (set(host) & {".", ":"} or host == "localhost"):
        host, rest = HUB, path
    elif host == f"index.{HUB}":
        host = HUB
    if host == HUB and "/" not in rest:
        rest = f"library/{rest}"
    return intern(f"{host}/{rest}@{digest}" if at else f"{host}/{rest}:{tag or 'latest'}")


def same_image(image: str, other: str) -> bool:
    return image == other or canonical(image) == canonical(other)


def digest_of(reference: str) -> str:
    return reference.rpartition("@")[2] if "@" in reference else ""


class PodProblem(StrEnum):
    """Why a pod is not healthy. Few enough values for a metric label."""

    CRASH_LOOP = "CrashLoopBackOff"
    IMAGE_PULL = "ImagePull"
    CONFIG = "Config"
    """The kubelet cannot create or start a container, such as for a missing ConfigMap or command."""
    UNSCHEDULABLE = "Unschedulable"
    NOT_READY = "NotReady"
    """Overdue to become ready; set by `planner.summary`, which knows the time."""
    EVICTED = "Evicted"
    OTHER = "Other"
    """Ended for another reason, for example because the kubelet did not admit it."""


KIND_OF: Final = {
    "CrashLoopBackOff": PodProblem.CRASH_LOOP,
    "ImagePullBackOff": PodProblem.IMAGE_PULL,
    "ErrImagePull": PodProblem.IMAGE_PULL,
    "ErrImageNeverPull": PodProblem.IMAGE_PULL,
    "InvalidImageName": PodProblem.IMAGE_PULL,
    "CreateContainerConfigError": PodProblem.CONFIG,
    "CreateContainerError": PodProblem.CONFIG,
    "RunContainerError": PodProblem.CONFIG,
}
"""Waiting reasons of containers that the kubelet retries indefinitely."""
_BACK_OFF: Final = ("CrashLoopBackOff", "ImagePullBackOff")


def stuck(*, waiting: str, ready: bool, exit_code: int | None, ended: str) -> str:
    """The reason why a container will not recover by itself, or "" if it may still start. `exit_code` and `ended` (a
    reason) describe its last end: a container that failed and is not ready will likely fail again."""
    if waiting in KIND_OF:
        return waiting
    return "" if ready or not exit_code else ended or "Error"


def problem_of_container(status: ContainerStatusView, replaced: Collection[str] = ()) -> PodProblem | None:
    """The problem of a container, if any. `replaced` has the ids of containers that an in-place update ended: their
    exit codes do not count, and a back-off after one means that the new image cannot be pulled."""
    waiting, ended = status.waiting.reason, status.ended or TerminatedView()
    if waiting == "CrashLoopBackOff" and status.container_id in replaced:
        return PodProblem.IMAGE_PULL
    code = None if ended.container_id in replaced else ended.exit_code
    word = stuck(waiting=waiting, ready=status.ready, exit_code=code, ended=ended.reason)
    return KIND_OF.get(word, PodProblem.CRASH_LOOP) if word else None


def failure_message_of(statuses: Iterable[ContainerStatusView], replaced: Collection[str] = ()) -> str:
    """Why the first container that cannot start or has failed did so, or "". Skips back-offs that hide the cause."""
    for status in statuses:
        if message := _failure_message(status, replaced):
            return truncated(f"container {status.name}: {message}", LONGEST_ITEM)
    return ""


def _failure_message(status: ContainerStatusView, replaced: Collection[str]) -> str:
    waiting, ended = status.waiting, status.ended
    if waiting.reason in KIND_OF and waiting.reason not in _BACK_OFF:
        return f"{waiting.reason}: {waiting.message}"
    again = waiting.reason == "CrashLoopBackOff"
    is_over = again or (status.state or _NO_STATE).terminated is not None
    if ended is None or not is_over or ended.container_id in replaced or not (again or ended.exit_code):
        return ""
    return f"ended, exit {ended.exit_code} ({ended.reason})"
