"""What follows from an error for the action that got it. Decided from values only; `execute` asks the server."""

from __future__ import annotations

from enum import Enum, auto

from controller.kube.meaning import ForWrite
from controller.planner.actions import Action, CreatePod, InDoubt, OnPod, OnRevision, ProbeTemplate


class CountsAsFailure(Enum):
    """Whether an error counts as a failure of its place. A place with several in a row is held back for a while, so
    that the rest goes on."""

    NO = auto()
    YES = auto()
    UNLESS_DONE = auto()
    """It counts unless an earlier attempt, whose answer was lost, may have succeeded after all."""


class Left(Enum):
    """What an error leaves to do. Derived names and guards make every write safe to try again."""

    NOTHING = auto()
    AGAIN = auto()
    TOLD = auto()
    """Tell users, and try again."""
    IF_THERE = auto()
    """Try again if the object exists; if not, somebody was quicker."""
    IN_DOUBT = auto()
    """Ask the server what became of the write, and try again."""


def counts_after(action: Action, means: ForWrite, *, suspect: bool) -> CountsAsFailure:
    """`suspect`: the next inconclusive error at this place counts as a failure of the place."""
    if not means.of_the_place and not suspect:
        return CountsAsFailure.NO
    certain = means in (ForWrite.ALTERED, ForWrite.ENDING) or (
        means is ForWrite.NO_ROOM and isinstance(action, CreatePod)
    )
    return CountsAsFailure.UNLESS_DONE if isinstance(action, InDoubt) and not certain else CountsAsFailure.YES


def left_after(action: Action, means: ForWrite, *, over: bool) -> Left:
    """`over`: the DaemonSet was found to be gone or replaced."""
    if over:
        return Left.AGAIN
    if means is ForWrite.ABSENT and isinstance(action, OnPod | OnRevision):
        return Left.IF_THERE
    if isinstance(action, ProbeTemplate) and (means.refused or means is ForWrite.EXISTS):
        return Left.NOTHING  # the refusal is the result of the dry run
    if means is ForWrite.ENDING:
        return Left.NOTHING
    if not isinstance(action, InDoubt):
        return Left.AGAIN
    if means is ForWrite.UNKNOWN:
        return Left.IN_DOUBT
    return Left.AGAIN if means.settles_itself else Left.TOLD
