"""Maps each class of error to what its caller has to do. All code that handles such an error asks here. The same as a
table: docs/design/life-of-an-event.md#when-a-write-fails."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from controller.api.base import Value
from controller.kube.errors import (
    AlreadyExists,
    Altered,
    ApiError,
    Busy,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NamespaceTerminating,
    NotFound,
    QuotaExceeded,
    ServerError,
    Unauthorized,
    Unknown,
    UnknownFields,
    Unreachable,
    Unreadable,
)


class Resend(Enum):
    """Whether the call itself sends its request again, before it raises the error."""

    NEVER = auto()
    LATER = auto()
    """Send it again while the call may last, each time after the seconds that the server asks for."""
    RENEWED = auto()
    """Send it again once, with fresh credentials."""


class ForWrite(Enum):
    """The result of a failed write, and when it is tried again."""

    ABSENT = auto()
    """There is no such object. A delete is done already; otherwise the next pass decides anew."""
    EXISTS = auto()
    """The name is taken. If the object is ours, the create is done already; the next pass decides anew."""
    OVERTAKEN = auto()
    """Somebody else has changed the object. The next pass decides anew from what is there."""
    REFUSED = auto()
    """The server refuses the request, and will refuse it again: reported, held back at its place, retried at growing
    intervals."""
    DENIED = auto()
    """The same, but perhaps only here: a policy may allow it on another node."""
    ALTERED = auto()
    """Done, but a webhook has made something else of it, that is of no use: reported, held back at its place, retried
    at growing intervals."""
    ENDING = auto()
    """The namespace is being deleted, and so will the DaemonSet be: not reported, held back at its place."""
    NO_ROOM = auto()
    """Refused although it is valid, until something is deleted: reported. A create of a pod holds back all creates,
    another write its place."""
    FAILED = auto()
    """Not done, for a reason outside of the request: reported, held back at its place, retried at growing
    intervals."""
    NOT_NOW = auto()
    """Not done, because the server is busy or away; any other write fails too. Reported, and retried soon."""
    UNKNOWN = auto()
    """In doubt: it may have been done, or may yet be. Until that is known, plans allow for both."""

    @property
    def of_the_place(self) -> bool:
        """Whether the cause is this node or object. If the server is away or busy, writes fail everywhere; if an
        object has changed meanwhile, the next try fails nowhere."""
        return self.refused or self is ForWrite.FAILED

    @property
    def refused(self) -> bool:
        """Whether the server does not do what was asked for, and will not."""
        return self in (ForWrite.REFUSED, ForWrite.DENIED, ForWrite.ALTERED, ForWrite.ENDING, ForWrite.NO_ROOM)

    @property
    def settles_itself(self) -> bool:
        """Whether the next pass nearly always settles it, so that it is reported only when it happens again and
        again."""
        return self in (ForWrite.EXISTS, ForWrite.OVERTAKEN, ForWrite.UNKNOWN)

    @property
    def undecided(self) -> bool:
        """Whether the server has not said yet if it accepts the write."""
        return self in (ForWrite.NOT_NOW, ForWrite.UNKNOWN)


class ForRead(Enum):
    """How a list or watch, which has to go on for ever, goes on after an error."""

    ANEW = auto()
    """List again: the version or the page token is too old."""
    MISSING = auto()
    """The server does not know the kind. Ask at long intervals until somebody installs its CRD; then list."""
    REFUSED = auto()
    """The server refuses this form of the request. List again in another form, at growing intervals."""
    FORBIDDEN = auto()
    """Access is denied, and only an administrator can change that. Try at growing intervals; another form of the
    request may be allowed."""
    NO_ENTRY = auto()
    """The credentials are refused, and only an administrator can change that. Try at growing intervals."""
    FAILING = auto()
    """The server fails. Try at growing intervals; after several failures list again, as our request may be the
    cause."""
    AWAY = auto()
    """The server cannot be reached. Try often: that costs it nothing."""
    BACK_OFF = auto()
    """Any other failure. Try at growing intervals."""


class Meaning(Value):
    write: ForWrite
    read: ForRead = ForRead.BACK_OFF
    resend: Resend = Resend.NEVER


MEANINGS: Final[Mapping[type[ApiError], Meaning]] = {
    NotFound: Meaning(write=ForWrite.ABSENT, read=ForRead.MISSING),
    AlreadyExists: Meaning(write=ForWrite.EXISTS),
    Conflict: Meaning(write=ForWrite.OVERTAKEN),
    Gone: Meaning(write=ForWrite.FAILED, read=ForRead.ANEW),
    Altered: Meaning(write=ForWrite.ALTERED),
    Invalid: Meaning(write=ForWrite.REFUSED, read=ForRead.REFUSED),
    UnknownFields: Meaning(write=ForWrite.REFUSED, read=ForRead.REFUSED),
    Forbidden: Meaning(write=ForWrite.DENIED, read=ForRead.FORBIDDEN),
    NamespaceTerminating: Meaning(write=ForWrite.ENDING, read=ForRead.FORBIDDEN),
    QuotaExceeded: Meaning(write=ForWrite.NO_ROOM, read=ForRead.FORBIDDEN),
    Unauthorized: Meaning(write=ForWrite.FAILED, read=ForRead.NO_ENTRY, resend=Resend.RENEWED),
    Busy: Meaning(write=ForWrite.NOT_NOW, resend=Resend.LATER),
    ServerError: Meaning(write=ForWrite.FAILED, read=ForRead.FAILING),
    Unreadable: Meaning(write=ForWrite.FAILED, read=ForRead.FAILING),
    Unreachable: Meaning(write=ForWrite.NOT_NOW, read=ForRead.AWAY),
    Unknown: Meaning(write=ForWrite.UNKNOWN),
}


def meaning_of(error: ApiError) -> Meaning:
    """The row of `error`'s class, or of the nearest base class that has one."""
    return next(MEANINGS[kind] for kind in type(error).__mro__ if kind in MEANINGS)
