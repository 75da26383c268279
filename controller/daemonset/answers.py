"""How the actions of a plan ended: one `Answer` for each action that was tried. Values only."""

from __future__ import annotations

from collections.abc import Callable, Collection

from controller.api.base import Value
from controller.api.daemonset import DaemonSet
from controller.daemonset.compiled import Compiled
from controller.kube.errors import ApiError
from controller.kube.meaning import ForWrite, meaning_of
from controller.planner.actions import Action, CreatePod
from controller.planner.place import ROOM, Place
from controller.planner.world import Accepted, TemplateRefused, TemplateVerdict, Unasked


class Answer(Value, gc=True):
    """How one action ended."""

    action: Action
    error: ApiError | None = None
    """What the server said; None: it is done."""
    left: ApiError | None = None
    """The error for which the action has to be tried again; None: nothing is left to be done."""
    counts: bool = False
    """Whether the error counts as a failure of the place, which is left alone after several of them."""
    taken: bool = False
    """Whether the name that we derived for a new object belongs to one that is not ours and never will be."""

    @property
    def means(self) -> ForWrite | None:
        """What the error means for a write; None where there is no error."""
        return None if self.error is None else meaning_of(self.error).write

    @property
    def place(self) -> Place:
        """The place where the action would fail again. A full quota stops every create, so it has a place of its
        own."""
        return ROOM if self.is_full_quota else self.action.place

    @property
    def is_full_quota(self) -> bool:
        return isinstance(self.action, CreatePod) and self.error is not None and self.error.is_full_quota


class Briefing(Value, gc=True):
    """What earlier passes have learnt, as far as it matters for carrying out a plan."""

    daemonset: DaemonSet
    compiled: Compiled
    failing: Collection[Place] = ()
    """Places where writes failed before."""
    is_suspect: Callable[[Place], bool] = lambda place: False
    """Whether one more answer that does not tell whether the place is at fault, such as a conflict, counts as a
    failure of it."""
    undone: Callable[[Action], ApiError | None] = lambda action: None
    """The error to report for an action that was accepted, now and before, and is taken back each time; else None."""
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
