"""Views of the containers of a pod: what the spec asks for and what the status reports.

Compares names of images. One image has several: `nginx` is `docker.io/library/nginx:latest`.

Finds pods that will not recover by themselves, and the kind of their problem: the same for metrics and the
plugin.
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


HUB = "docker.io"
_KNOWN = 16_384
"""Names that are remembered; most nodes of a cluster have the same ones."""


@lru_cache(_KNOWN)
def canonical(reference: str) -> str:
    """The full form: `host/path:tag`, or `host/path@digest` if there is a digest, as the tag then means nothing."""
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
    """The digest, `sha256:…`, in `registry/name@sha256:…` or `registry/name:tag@sha256:…`; empty if there is none."""
    return reference.rpartition("@")[2] if "@" in reference else ""


class PodProblem(StrEnum):
    """The kinds of problems, few enough for a label of metrics."""

    CRASH_LOOP = "CrashLoopBackOff"
    """A container has started and failed, and is restarted again and again."""
    IMAGE_PULL = "ImagePull"
    """The kubelet cannot get an image."""
    CONFIG = "Config"
    """The kubelet cannot create or start a container: a ConfigMap is missing, or a command does not exist."""
    UNSCHEDULABLE = "Unschedulable"
    """The scheduler cannot place it on its node."""
    NOT_READY = "NotReady"
    """It should be ready by now. Only `planner.summary`, which knows the time, can tell."""
    EVICTED = "Evicted"
    """The kubelet has evicted it because the node was short of a resource."""
    OTHER = "Other"
    """It has ended for another reason, for example because the kubelet did not admit it."""


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
    """Why a container will not recover by itself, in the kubelet's word; empty: it may still start.

    `exit_code` and `ended` (the reason) are those of its present or last end. A container that failed and is not
    ready will most likely fail again.
    """
    if waiting in KIND_OF:
        return waiting
    if ready or not exit_code:
        return ""
    return ended or "Error"


def problem_of_container(status: ContainerStatusView, replaced: Collection[str] = ()) -> PodProblem | None:
    """The problem of a container; None: it has none. `replaced` are ids of containers that an update in place ended:
    how these ended says nothing about their successors, and a back-off of the kubelet after one of them means that it
    cannot get the image."""
    state, last = status.state, status.last_state
    waiting = state.waiting.reason if state is not None and state.waiting is not None else ""
    ended = (state and state.terminated) or (last and last.terminated) or TerminatedView()
    if waiting == "CrashLoopBackOff" and status.container_id in replaced:
        return PodProblem.IMAGE_PULL
    code = None if ended.container_id in replaced else ended.exit_code
    word = stuck(waiting=waiting, ready=status.ready, exit_code=code, ended=ended.reason)
    return KIND_OF.get(word, PodProblem.CRASH_LOOP) if word else None


def failure_message_of(statuses: Iterable[ContainerStatusView], replaced: Collection[str] = ()) -> str:
    """The first container that the kubelet cannot start or that has failed, with the message of the kubelet; empty:
    it reports none now. `replaced` are ids of containers that an update in place ended.

    While the kubelet backs off, it reports only the back-off instead of the cause; such reports are skipped.
    """
    for one in statuses:
        if words := _complaint(one, replaced):
            return truncated(f"container {one.name}: {words}", LONGEST_ITEM)
    return ""


def _complaint(status: ContainerStatusView, replaced: Collection[str]) -> str:
    state, last = status.state or ContainerStateView(), status.last_state or ContainerStateView()
    waiting = state.waiting or WaitingView()
    if waiting.reason in KIND_OF and waiting.reason not in _BACK_OFF:
        return f"{waiting.reason}: {waiting.message}"
    again = waiting.reason == "CrashLoopBackOff"
    ended = last.terminated if again else state.terminated
    if ended is None or ended.container_id in replaced or not (again or ended.exit_code):
        return ""
    return f"ended, exit {ended.exit_code} ({ended.reason})"
