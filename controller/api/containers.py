"""The containers of a pod: what the spec asks for, what the status reports, the names of their images, and the
problems from which they do not recover by themselves.
"""

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
"""Quantities by name of the resource."""


class ResourcesView(View):
    limits: Amounts | None = None
    requests: Amounts | None = None


class ProbeView(View):
    """A probe; only whether there is one is read."""


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
    """Any name by which the node knows the image; not always that of the spec."""
    image_id: str = msgspec.field(default="", name="imageID")
    container_id: str = msgspec.field(default="", name="containerID")
    """The id of the container that runs or ran last; empty before the first."""
    restart_count: int = 0
    state: ContainerStateView | None = None
    last_state: ContainerStateView | None = None
    resources: ResourcesView | None = None
    """The resources that the container has; None: the node does not report them."""

    @property
    def waiting(self) -> WaitingView:
        return (self.state or _NO_STATE).waiting or _NOT_WAITING

    @property
    def running(self) -> RunningView | None:
        return (self.state or _NO_STATE).running

    @property
    def ended(self) -> TerminatedView | None:
        """The end of the container, or of the one before it; None: none has ended."""
        return (self.state or _NO_STATE).terminated or (self.last_state or _NO_STATE).terminated


HUB = "docker.io"


@lru_cache(16_384)  # most nodes of a cluster have the same images
def canonical(reference: str) -> str:
    """The full name of an image: `host/path:tag`, or `host/path@digest` if there is a digest, which makes the tag
    meaningless. `nginx` is `docker.io/library/nginx:latest`."""
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


def same_image(one: str, other: str) -> bool:
    """Whether two references name the same image."""
    return one == other or canonical(one) == canonical(other)


def digest_of(reference: str) -> str:
    """The digest in `registry/name:tag@sha256:…`; empty if there is none."""
    return reference.rpartition("@")[2] if "@" in reference else ""


class PodProblem(StrEnum):
    """The kinds of problems of pods, few enough for a label of metrics."""

    CRASH_LOOP = "CrashLoopBackOff"
    """A container fails and is restarted again and again."""
    IMAGE_PULL = "ImagePull"
    """The kubelet cannot get an image."""
    CONFIG = "Config"
    """The kubelet cannot create or start a container: a ConfigMap is missing, or a command does not exist."""
    UNSCHEDULABLE = "Unschedulable"
    """The scheduler cannot place it on its node."""
    NOT_READY = "NotReady"
    """It should be ready by now; found by `planner.summary`, which knows the time."""
    EVICTED = "Evicted"
    """The kubelet has evicted it because the node was short of a resource."""
    OTHER = "Other"
    """It has ended for another reason, such as that the kubelet did not admit it."""


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
"""Reasons with which the kubelet reports a waiting container that it tries to start again and again."""
_BACK_OFF: Final = ("CrashLoopBackOff", "ImagePullBackOff")


def stuck(*, waiting: str, ready: bool, exit_code: int | None, ended: str) -> str:
    """The kubelet's reason why a container will not recover by itself; empty: it may still start. `exit_code` and
    `ended` (the reason) are of its last end: a container that failed and is not ready will likely fail again."""
    if waiting in KIND_OF:
        return waiting
    return "" if ready or not exit_code else ended or "Error"


def problem_of_container(status: ContainerStatusView, replaced: Collection[str] = ()) -> PodProblem | None:
    """The problem of a container, if any. `replaced` are ids of containers that an update in place ended: their ends
    say nothing about their successors, and a back-off after one of them means that its image cannot be pulled."""
    waiting, ended = status.waiting.reason, status.ended or TerminatedView()
    if waiting == "CrashLoopBackOff" and status.container_id in replaced:
        return PodProblem.IMAGE_PULL
    code = None if ended.container_id in replaced else ended.exit_code
    word = stuck(waiting=waiting, ready=status.ready, exit_code=code, ended=ended.reason)
    return KIND_OF.get(word, PodProblem.CRASH_LOOP) if word else None


def failure_message_of(statuses: Iterable[ContainerStatusView], replaced: Collection[str] = ()) -> str:
    """The kubelet's message about the first container that cannot start or has failed; empty: none. `replaced` as
    above. A back-off is skipped where the kubelet reports it instead of the cause."""
    for one in statuses:
        if message := _failure_message(one, replaced):
            return truncated(f"container {one.name}: {message}", LONGEST_ITEM)
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
