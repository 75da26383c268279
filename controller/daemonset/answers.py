"""What carrying out a plan has taught: one answer for each action that was tried. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Callable, Collection

from controller.api.base import Value
from controller.api.daemonset import DaemonSet
from controller.daemonset.compiled import Compiled
from controller.kube.errors import ApiError
from controller.kube.meaning import ForWrite, meaning_of
from controller.planner.actions import Action, CreatePod, place_of
from controller.planner.place import ROOM, Place
from controller.planner.world import Accepted, TemplateRefused, TemplateVerdict, Unasked


class Answer(Value, gc=True):
    """Of one action."""

    action: Action
    error: ApiError | None = None
    """What the server said; None: it is done."""
    left: ApiError | None = None
    """For what it has to be tried again; None: nothing is left to be done."""
    counts: bool = False
    """The error counts as a failure of the place."""
    taken: bool = False
    """The name that we derived belongs to what is not ours and will not be."""

    @property
    def means(self) -> ForWrite | None:
        """The error does; None: there is none."""
        return None if self.error is None else meaning_of(self.error).write

    @property
    def place(self) -> Place:
        """Where it would fail again; a full quota is a matter of all pods that are to be created."""
        return ROOM if self.is_full_quota else place_of(self.action)

    @property
    def is_full_quota(self) -> bool:
        return isinstance(self.action, CreatePod) and self.error is not None and self.error.is_full_quota


class Briefing(Value, gc=True):
    """What carrying out a plan has to know of the passes before."""

    daemonset: DaemonSet
    compiled: Compiled
    failing: Collection[Place] = ()
    """Places where writes failed before."""
    is_suspect: Callable[[Place], bool] = lambda place: False
    """Whether one more answer that says nothing of the place counts as a failure of it."""
    undone: Callable[[Action], ApiError | None] = lambda action: None
    """What there is to say of an action that was accepted, where it was so before and somebody takes it back."""
    proven: str = ""
    """Hash of the revision of which the server has accepted several pods: no slow start for it."""


def verdict_on_template(error: ApiError | None) -> TemplateVerdict:
    """What the answer to a dry run says of the template. A name that is taken is the last thing that a server looks
    at, and a full quota is no matter of the template: the pod that goes makes room."""
    if error is None:
        return Accepted()
    match meaning_of(error).write:
        case ForWrite.REFUSED if not error.is_full_quota:
            return TemplateRefused(words=error.message)
        case ForWrite.REFUSED | ForWrite.EXISTS:
            return Accepted()
        case ForWrite.ABSENT | ForWrite.OVERTAKEN | ForWrite.FAILED | ForWrite.NOT_NOW | ForWrite.UNKNOWN:
            return Unasked()
