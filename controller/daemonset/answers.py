"""How the actions of a plan ended: one `Answer` for each action that was tried. Values only."""

from __future__ import annotations

from collections.abc import Callable, Collection

from controller.api.base import Value
from controller.api.daemonset import DaemonSet
from controller.daemonset.compiled import Compiled
from controller.kube.errors import ApiError, UnknownFields
from controller.kube.meaning import ForWrite, meaning_of
from controller.planner.actions import Action, CreatePod
from controller.planner.manifest import unknown_field_words
from controller.planner.place import ROOM, Place
from controller.planner.world import Accepted, TemplateRefused, TemplateVerdict, Unasked


class Answer(Value, gc=True):
    """How one action ended."""

    action: Action
    error: ApiError | None = None
    """The error that the server returned; None: it is done."""
    left: ApiError | None = None
    """The error because of which the action has to be tried again; None: nothing is left to do."""
    counts: bool = False
    """Whether the error counts as a failure of the place, which is left alone after several of them."""
    taken: bool = False
    """Whether the name that we derived for a new object belongs to an object of somebody else."""

    @property
    def means(self) -> ForWrite | None:
        """The meaning of the error for a write; None: there is no error."""
        return None if self.error is None else meaning_of(self.error).write

    @property
    def place(self) -> Place:
        """The place where the action would fail again. A full quota has a place of its own, because it stops all
        creates."""
        return ROOM if self.is_full_quota else self.action.place

    @property
    def is_full_quota(self) -> bool:
        return isinstance(self.action, CreatePod) and self.means is ForWrite.NO_ROOM


class ExecutionContext(Value, gc=True):
    """Knowledge of earlier passes that matters for carrying out a plan."""

    daemonset: DaemonSet
    compiled: Compiled
    failing: Collection[Place] = ()
    """Places where writes failed before."""
    is_suspect: Callable[[Place], bool] = lambda place: False
    """Whether the next inconclusive error at this place, such as a conflict, counts as a failure of the place."""
    reverted: Callable[[Action], ApiError | None] = lambda action: None
    """The error for an action that the server accepts each time and somebody takes back; None: nobody does."""
    proven: str = ""
    """Hash of the revision with several accepted pods, which needs no slow start; empty: none."""


def verdict_on_template(error: ApiError | None) -> TemplateVerdict:
    """What the answer to a dry run says about the template. A server checks last whether the name is taken, so
    AlreadyExists means that it accepts the template. A full quota means the same, because deleting the old pod makes
    room."""
    if error is None:
        return Accepted()
    if isinstance(error, UnknownFields):
        return TemplateRefused(words=unknown_field_words(error.message), unknown_fields=True)
    match meaning_of(error).write:
        case ForWrite.REFUSED | ForWrite.DENIED | ForWrite.ALTERED:
            return TemplateRefused(words=error.message)
        case ForWrite.EXISTS | ForWrite.NO_ROOM:
            return Accepted()
        case ForWrite.ABSENT | ForWrite.OVERTAKEN | ForWrite.ENDING:
            return Unasked()
        case ForWrite.FAILED | ForWrite.NOT_NOW | ForWrite.UNKNOWN:
            return Unasked()
