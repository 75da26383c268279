"""What comes between the end of a request or a stream and the next request. No I/O, no clock, no randomness."""

from __future__ import annotations

from enum import Enum

from controller.api.base import Value
from controller.kube.meaning import ForRead
from controller.runtime.contact import Contact, RestartReason, contact_after, restart_reason
from controller.runtime.watch import (
    Closed,
    Doubted,
    End,
    Failed,
    Filling,
    Listed,
    Listing,
    Stalled,
    Start,
    State,
    Streaming,
    Unmarked,
    on_end,
)

TOO_SHORT = 1.0
"""A stream that ends sooner without an event counts as a failure to open: else we would hammer a sick server."""


class Length(Enum):
    """From so many seconds to so many. A random number between them, so that not all clients come at once."""

    NONE = (0.0, 0.0)
    """This way of listing will not do and the other one is not tried yet, or somebody doubts what is known."""
    SHORT = (0.0, 1.0)
    """The stream was of use, and forgives the failures before it. However it ended: a load balancer that cuts idle
    connections must not leave us without one for long."""
    AWAY = (1.0, 2.0)
    """The server does not answer: it feels nothing of our looks, and work waits for it."""
    MISSING = (2.0, 4.0)
    """The kind is not there: somebody is probably about to install its CRD."""
    GROWING = (0.8, 30.0)
    """From the one to the other, twice as long after each failure; up to as much again by chance."""

    @property
    def seconds(self) -> tuple[float, float]:
        least, most = self.value
        return least, most


class WatchPause(Value):
    length: Length
    at_least: float = 0.0
    """Seconds that a busy or failing server asks for."""
    restart: RestartReason | None = None
    """To tell: why the stream ended that was open."""
    contact: Contact | None = None
    """To tell: how it stands with the server. Not at the end of an open stream: the next request will show."""
    emptied: bool = False
    """The server does not know the kind: there are no such objects any more."""


def pause_after(before: State, end: End, *, lasted: float, delivered: bool) -> WatchPause:
    """After the request or stream of the state `before`.

    `lasted`: seconds from the request to the end; `delivered`: whether anything came.
    """
    length = _length(before, end, lasted=lasted, delivered=delivered)
    restart = restart_reason(end) if isinstance(before, Filling | Streaming) else None
    if not isinstance(end, Failed):
        return WatchPause(length=length, restart=restart)
    is_news = isinstance(before, Start | Listing | Listed) and length is not Length.NONE
    return WatchPause(
        length=length,
        at_least=(end.error.retry_after or 0.0) if length in (Length.SHORT, Length.GROWING) else 0.0,
        restart=restart,
        contact=contact_after(end.error) if is_news and end.means is not ForRead.ANEW else None,
        emptied=end.means is ForRead.MISSING,
    )


def _length(before: State, end: End, *, lasted: float, delivered: bool) -> Length:
    """A stream was of use if it lasted or delivered. Where everything has to be listed again it must have lasted: a
    list is dear, and delivers by itself."""
    after = on_end(before, end)
    match before, end:
        case _, Doubted() | Stalled() | Unmarked():
            return Length.NONE
        case Start(), _ if after != before:
            return Length.NONE
        case _, Failed(means=ForRead.MISSING):
            return Length.MISSING
        case Start() | Listing() | Listed(), Failed(means=ForRead.AWAY):
            return Length.AWAY
        case Streaming(), Closed() | Failed() if lasted >= TOO_SHORT or (delivered and isinstance(after, Listed)):
            return Length.SHORT
        case _:
            return Length.GROWING
