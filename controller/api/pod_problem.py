"""Finds pods that will not recover by themselves, and the kind of their problem: the same for metrics and the
plugin."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Final

from controller.api.container import ContainerStateView, ContainerStatusView, TerminatedView, WaitingView
from controller.api.text import LONGEST_ITEM, shortened


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


def complaint_of(statuses: Iterable[ContainerStatusView], replaced: Collection[str] = ()) -> str:
    """The first container that the kubelet cannot start or that has failed, with the message of the kubelet; empty:
    it reports none now. `replaced` are ids of containers that an update in place ended.

    While the kubelet backs off, it reports only the back-off instead of the cause; such reports are skipped.
    """
    for one in statuses:
        if words := _complaint(one, replaced):
            return shortened(f"container {one.name}: {words}", LONGEST_ITEM)
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
