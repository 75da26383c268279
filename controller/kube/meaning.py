"""What an error means for whoever made the request: one row for each class. Who goes on after an error asks here."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from controller.api.base import Value
from controller.kube.errors import (
    AlreadyExists,
    ApiError,
    Busy,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    ServerError,
    Unauthorized,
    Unknown,
    Unreachable,
    Unreadable,
)


class Resend(Enum):
    """Whether the call itself sends its request again, before anybody hears of the error."""

    NEVER = auto()
    LATER = auto()
    """As long as the call may last, each time after the seconds that the server asks for."""
    RENEWED = auto()
    """Once, with fresh credentials."""


class ForWrite(Enum):
    """What became of a write, and when it is tried again."""

    ABSENT = auto()
    """There is no such object: done already, where it was to go."""
    EXISTS = auto()
    """The name is taken: done already, where that is ours. The next pass decides anew."""
    OVERTAKEN = auto()
    """Somebody else was quicker: the next pass decides anew from what is there."""
    REFUSED = auto()
    """The server does not want it, and would not at once: told, held back at its place, tried ever later."""
    FAILED = auto()
    """Not done, for no reason that the request has: told, held back at its place, tried ever later."""
    NOT_NOW = auto()
    """Not done, and would not be anywhere: told, and tried again soon."""
    UNKNOWN = auto()
    """It may have been done, or may yet be: looked for, and counted as both until that is known."""

    @property
    def of_the_place(self) -> bool:
        """Whether it speaks against this node or object: a server that is away or busy, or an object that has changed
        meanwhile, would fail anywhere or nowhere."""
        return self in (ForWrite.REFUSED, ForWrite.FAILED)

    @property
    def settles_itself(self) -> bool:
        """Whether the next pass settles it, nearly always: no trouble to tell before it comes again and again."""
        return self in (ForWrite.EXISTS, ForWrite.OVERTAKEN, ForWrite.UNKNOWN)

    @property
    def undecided(self) -> bool:
        """Whether nobody knows yet if the server wants it."""
        return self in (ForWrite.NOT_NOW, ForWrite.UNKNOWN)


class ForRead(Enum):
    """How a read or a watch goes on that is to go on for ever."""

    ANEW = auto()
    """From the beginning: the version or the page is too old."""
    MISSING = auto()
    """There is nothing to read; seldom, until somebody brings it, and then from the beginning."""
    REFUSED = auto()
    """From the beginning, ever later: what was asked for will not do, in another way it may."""
    FORBIDDEN = auto()
    """Ever later: only an administrator can mend it. What was asked for in another way may be allowed."""
    NO_ENTRY = auto()
    """Ever later: only an administrator can mend it, whatever is asked for."""
    FAILING = auto()
    """Ever later; from the beginning where it fails again and again, as it may be what we ask for."""
    AWAY = auto()
    """Often: a server that is not there feels nothing of it."""
    BACK_OFF = auto()
    """Ever later."""


class Meaning(Value):
    write: ForWrite
    read: ForRead = ForRead.BACK_OFF
    resend: Resend = Resend.NEVER


MEANINGS: Final[Mapping[type[ApiError], Meaning]] = {
    NotFound: Meaning(write=ForWrite.ABSENT, read=ForRead.MISSING),
    AlreadyExists: Meaning(write=ForWrite.EXISTS),
    Conflict: Meaning(write=ForWrite.OVERTAKEN),
    Gone: Meaning(write=ForWrite.FAILED, read=ForRead.ANEW),
    Invalid: Meaning(write=ForWrite.REFUSED, read=ForRead.REFUSED),
    Forbidden: Meaning(write=ForWrite.REFUSED, read=ForRead.FORBIDDEN),
    Unauthorized: Meaning(write=ForWrite.FAILED, read=ForRead.NO_ENTRY, resend=Resend.RENEWED),
    Busy: Meaning(write=ForWrite.NOT_NOW, resend=Resend.LATER),
    ServerError: Meaning(write=ForWrite.FAILED, read=ForRead.FAILING),
    Unreadable: Meaning(write=ForWrite.FAILED, read=ForRead.FAILING),
    Unreachable: Meaning(write=ForWrite.NOT_NOW, read=ForRead.AWAY),
    Unknown: Meaning(write=ForWrite.UNKNOWN),
}


def meaning_of(error: ApiError) -> Meaning:
    """By the class of `error`, or the one that it is a kind of."""
    return next(MEANINGS[kind] for kind in type(error).__mro__ if kind in MEANINGS)
