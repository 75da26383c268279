"""The pause between the end of a request or a stream and the next request. No I/O, no clock, no randomness."""

from __future__ import annotations

from enum import Enum

from controller.api.base import Value
from controller.kube.meaning import ForRead
from controller.runtime.contact import Contact, RestartReason, contact_after, restart_reason
from controller.runtime.watch import (
    Closed,
    End,
    Failed,
    Filling,
    Listed,
    Listing,
    RelistAsked,
    Stalled,
    Start,
    State,
    Streaming,
    Unmarked,
    WentBack,
    on_end,
)

TOO_SHORT = 1.0
"""Seconds. A stream that ends sooner, without an event, counts as one that did not open: otherwise a sick server
would get request after request."""


class Length(Enum):
    """The length of a pause: a random number of seconds between two bounds, so that clients do not come at once."""

    NONE = (0.0, 0.0)
    """No pause: the initial state is asked for in the other way, or `relist` was called."""
    SHORT = (0.0, 1.0)
    """The stream lasted or delivered, so earlier failures are forgotten. It does not matter how it ended: load
    balancers cut idle connections, and a new one is needed soon."""
    AWAY = (1.0, 2.0)
    """The server cannot be reached: asking often costs it nothing, and work waits for it."""
    MISSING = (2.0, 4.0)
    """The kind is not there: somebody is probably about to install its CRD."""
    GROWING = (0.8, 30.0)
    """Any other failure: the first number at first, twice as long each time, at most the second; a random share of up
    to 100 % is added (client-go's reflector: 0.8 s to 30 s)."""

    @property
    def seconds(self) -> tuple[float, float]:
        least, most = self.value
        return least, most


class WatchPause(Value):
    length: Length
    at_least: float = 0.0
    """Seconds that a busy or failing server asks for."""
    restart: RestartReason | None = None
    """The reason why an open stream ended, for the metric; None: none was open, or it is no news."""
    contact: Contact | None = None
    """The contact that the request showed. None after an open stream: the next request will show it."""
    emptied: bool = False
    """The server does not know the kind, so there are no such objects any more."""


def pause_after(before: State, end: End, *, lasted: float, delivered: bool) -> WatchPause:
    """The pause after a request or stream, begun in the state `before`, has ended with `end`.

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
    """A stream that lasted or delivered earns a short pause. If everything has to be listed again, only one that
    lasted does: a list is expensive, and always delivers something."""
    after = on_end(before, end)
    if isinstance(before, Start) and after != before:
        return Length.NONE
    match end:
        case RelistAsked() | Stalled() | Unmarked():
            return Length.NONE
        case Failed(means=ForRead.MISSING):
            return Length.MISSING
        case Failed(means=ForRead.AWAY) if not isinstance(before, Filling | Streaming):
            return Length.AWAY
        case Closed() | Failed() if isinstance(before, Streaming) and (
            lasted >= TOO_SHORT or (delivered and isinstance(after, Listed))
        ):
            return Length.SHORT
        case Closed() | Failed() | WentBack():
            return Length.GROWING
