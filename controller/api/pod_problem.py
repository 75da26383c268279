"""Which pods will not get well by waiting, and of what kind of trouble: one answer for metrics and plugin."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Final

from controller.api.container import ContainerStateView, ContainerStatusView, TerminatedView, WaitingView
from controller.api.text import LONGEST_ITEM, shortened


class PodProblem(StrEnum):
    """Kinds of trouble, few enough to be a label of metrics."""

    CRASH_LOOP = "CrashLoopBackOff"
    """A container that was started has ended badly, and is tried again and again."""
    IMAGE_PULL = "ImagePull"
    """The kubelet cannot get an image."""
    CONFIG = "Config"
    """The kubelet cannot make or start a container: a ConfigMap that is missing, a command that does not exist."""
    UNSCHEDULABLE = "Unschedulable"
    """The scheduler finds no place on the node."""
    NOT_READY = "NotReady"
    """It should be ready by now. Only who knows the time can tell; see `planner.summary`."""
    EVICTED = "Evicted"
    """The kubelet has ended it because the node ran out of something."""
    OTHER = "Other"
    """It has ended for any other reason, such as one for which the kubelet did not admit it."""


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
"""What the kubelet says of a container that waits and that it tries again and again."""
_BACK_OFF: Final = ("CrashLoopBackOff", "ImagePullBackOff")


def stuck(*, waiting: str, ready: bool, exit_code: int | None, ended: str) -> str:
    """Why a container will not get well by waiting, in the kubelet's word; empty while it may yet start.

    `exit_code` and `ended` (its reason) are of its present or last end. One that ended badly and is not ready was
    started before and will most likely end so again.
    """
    if waiting in KIND_OF:
        return waiting
    if ready or not exit_code:
        return ""
    return ended or "Error"


def problem_of_container(status: ContainerStatusView, replaced: Collection[str] = ()) -> PodProblem | None:
    """`replaced`: ids of containers that an update in place ended. How they ended says nothing of what comes after
    them; and the kubelet's back-off after one of them is over an image that it cannot get."""
    state, last = status.state, status.last_state
    waiting = state.waiting.reason if state is not None and state.waiting is not None else ""
    ended = (state and state.terminated) or (last and last.terminated) or TerminatedView()
    if waiting == "CrashLoopBackOff" and status.container_id in replaced:
        return PodProblem.IMAGE_PULL
    code = None if ended.container_id in replaced else ended.exit_code
    word = stuck(waiting=waiting, ready=status.ready, exit_code=code, ended=ended.reason)
    return KIND_OF.get(word, PodProblem.CRASH_LOOP) if word else None


def complaint_of(statuses: Iterable[ContainerStatusView], replaced: Collection[str] = ()) -> str:
    """Which container the kubelet cannot start, and its words about that, or how one ended; empty where it does not
    say so just now. `replaced`: ids of containers that an update in place ended.

    While it waits to try again it says something else, which is no news.
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
