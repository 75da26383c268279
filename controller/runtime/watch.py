"""The list/watch protocol as states and transitions. No I/O, no clock, no randomness.

    Start ──open──▶ Filling ──initial-events-end──▶ Streaming ◀──open── Listed
      │                                                │                  ▲ ▲
      └──page──▶ Listing ──last page───────────────────│──────────────────┘ │
                                                       └──end───────────────┘

`ask` returns the next request in a state. The `on_…` functions return the next state after an answer, and the event
for the store. How a request or a stream ended is an `End`; only `on_end` may discard what is known and go back to
Start. The initial state comes as a stream where the server supports it (WatchList; only with `allowWatchBookmarks`
does it send the bookmark that ends the initial state), else as a list in pages; a server that refuses this stream, or
never ends it, is asked for pages from then on. If this stream breaks off, the next list comes in pages, and the one
after it as a stream again, as client-go does it: something on the way may cut the stream each time, but one lost
connection is no reason to burden the server with pages for good. Both are consistent reads: from a stale start, pods
could be created twice.

The Contact of a reflector with its server, as it is reported: whether it can be reached, and why a stream
ended.

The pause between the end of a request or a stream and the next request. No I/O, no clock, no randomness.
"""

from __future__ import annotations

from enum import Enum
from typing import Generic, Literal, TypeAlias, TypeVar

from controller.api.objects import Value
from controller.kube.decode import Bookmark, Malformed, Page, Seen, WatchEvent
from controller.kube.errors import ApiError, WatchVerdict, classify
from controller.kube.requests import PAGE_SIZE, Query

T = TypeVar("T")

MOST_STRIKES = 5
"""After so many failures of the watch from one version, not counting lost connections, everything is listed again."""


class ListMode(Enum):
    """How the initial state is fetched."""

    STREAMED = "stream"
    PAGED = "pages"
    PAGED_ONCE = "pages once"
    """One list in pages, because the stream of the initial state broke off."""
    UNPAGED = "whole"
    """One list without pages, once, because the pages' token expired on the way."""

    @property
    def later(self) -> ListMode:
        """How everything is listed again, after a list in this manner is complete."""
        return {ListMode.PAGED_ONCE: ListMode.STREAMED, ListMode.UNPAGED: ListMode.PAGED}.get(self, self)


class Empty(Value):
    """Nothing is known: at the beginning, or because what was known is discarded."""

    manner: ListMode = ListMode.STREAMED


class InitialWatch(Value):
    """A stream of the initial state is open; the bookmark that ends the initial state has not come yet."""


class Listing(Value):
    """Some pages of a list have come, and more follow."""

    token: str
    manner: ListMode


class Listed(Value):
    """Everything is known as of `version`; no stream is open."""

    version: str
    manner: ListMode
    strikes: int = 0


class Watching(Value):
    """Everything is known as of `version`, and a stream of changes is open."""

    version: str
    manner: ListMode
    strikes: int = 0


State: TypeAlias = Empty | InitialWatch | Listing | Listed | Watching


class ListPage(Value):
    limit: int
    """0: all that is left."""
    token: str


class OpenWatch(Value):
    query: Query


class Init(Value):
    """Tells the store to forget what has come since the last Init; all objects follow."""


class InitDone(Value):
    """Tells the store that all objects have come, as of `version`."""

    version: str


StoreEvent: TypeAlias = Init | InitDone | Seen[T] | Malformed | Bookmark


class Closed(Value):
    """The server closed the stream, as it does every few minutes."""


class Failed(Value, gc=True):
    """The request was refused or not answered, or the stream broke."""

    error: ApiError

    @property
    def means(self) -> WatchVerdict:
        return classify(self.error).read


class Stalled(Value):
    """The stream of the initial state has been silent for too long, and is not complete."""


class InitialEventsIgnored(Value):
    """An ordinary bookmark came before the end of the initial state: the server ignores `sendInitialEvents`."""


class VersionWentBack(Value):
    """The server's versions are older than those we know: its storage was restored from a backup."""


class RelistRequested(Value):
    """`Reflector.relist` was called: the store may be wrong."""


End: TypeAlias = Closed | Failed | Stalled | InitialEventsIgnored | VersionWentBack | RelistRequested
"""How a request or a stream ended; a page of a list is not an end."""


class Next(Value, Generic[T]):
    """The stream goes on: the next state, and the event for the store."""

    state: Watching | InitialWatch
    event: StoreEvent[T]


def ask(state: State, timeout_seconds: int) -> ListPage | OpenWatch:
    """The next request. `timeout_seconds`: after so long the server ends a watch; random, 300 to 600 (as client-go
    does it), so that not all watches end at once.

    Raises AssertionError while a stream is open.
    """
    common = (("allowWatchBookmarks", "true"), ("timeoutSeconds", str(timeout_seconds)))
    match state:
        case Empty(manner=ListMode.STREAMED):
            return OpenWatch(query=(("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan"), *common))
        case Empty(manner=manner):
            return ListPage(limit=0 if manner is ListMode.UNPAGED else PAGE_SIZE, token="")
        case Listing(token=token, manner=manner):
            return ListPage(limit=0 if manner is ListMode.UNPAGED else PAGE_SIZE, token=token)
        case Listed(version=version):
            return OpenWatch(query=(("resourceVersion", version), *common))
        case InitialWatch() | Watching():
            raise AssertionError("a stream is open")


def on_open(state: State) -> tuple[State, tuple[Init, ...]]:
    """The server accepted the watch. Raises AssertionError in a state that asks for none."""
    match state:
        case Listed(version=version, manner=manner, strikes=strikes):
            return Watching(version=version, manner=manner, strikes=strikes), ()
        case Empty(manner=ListMode.STREAMED):
            return InitialWatch(), (Init(),)
        case Empty() | InitialWatch() | Listing() | Watching():
            raise AssertionError("no stream was asked for")


def on_page(state: State, page: Page[T]) -> tuple[State, tuple[StoreEvent[T], ...]]:
    """The next state, and events for the store, after a page of a list: Init first, InitDone after the last page."""
    manner = _manner(state)
    first: tuple[StoreEvent[T], ...] = () if isinstance(state, Listing) else (Init(),)
    if page.token:
        return Listing(token=page.token, manner=manner), (*first, *page.items)
    done = InitDone(version=page.version)
    return Listed(version=page.version, manner=manner.later), (*first, *page.items, done)


def on_event(state: State, event: WatchEvent[T]) -> Next[T] | InitialEventsIgnored | VersionWentBack:
    """What follows from an event of the open stream; an `End`: close it. Raises AssertionError while none is open."""
    if isinstance(state, Watching):
        if isinstance(event, Bookmark) and _went_back(state.version, event.version):
            return VersionWentBack()
        return Next(state=Watching(version=event.version or state.version, manner=state.manner), event=event)
    if not isinstance(state, InitialWatch):
        raise AssertionError("no stream is open")
    if not isinstance(event, Bookmark):
        return Next(state=state, event=event)
    if event.initial_end:
        streaming = Watching(version=event.version, manner=ListMode.STREAMED)
        return Next(state=streaming, event=InitDone(version=event.version))
    return InitialEventsIgnored()


def on_end(state: State, end: End) -> State:
    """The next state after `end`: it keeps what is still known."""
    match end:
        case RelistRequested() | VersionWentBack():
            return Empty(manner=_manner(state))
        case Stalled() | InitialEventsIgnored() if isinstance(state, InitialWatch):
            return Empty(manner=ListMode.PAGED)
        case Closed() | Stalled() | InitialEventsIgnored():
            return _kept(state)
        case Failed(means=means):
            return _on_failure(state, means)


def _on_failure(state: State, means: WatchVerdict) -> State:
    was_stream = isinstance(state, InitialWatch) or state == Empty(manner=ListMode.STREAMED)
    match means:
        case WatchVerdict.INVALID | WatchVerdict.FORBIDDEN if was_stream:
            return Empty(manner=ListMode.PAGED)
        case WatchVerdict.EXPIRED | WatchVerdict.INVALID | WatchVerdict.NOT_SERVED:
            return _from_the_beginning(state)
        case WatchVerdict.SERVER_ERROR if isinstance(state, Listed | Watching):
            strikes = state.strikes + 1
            if strikes >= MOST_STRIKES:
                return _from_the_beginning(state)
            return Listed(version=state.version, manner=state.manner, strikes=strikes)
        case (
            WatchVerdict.FORBIDDEN
            | WatchVerdict.UNAUTHORIZED
            | WatchVerdict.SERVER_ERROR
            | WatchVerdict.UNREACHABLE
            | WatchVerdict.OTHER
        ):
            return _kept(state)


def _from_the_beginning(state: State) -> State:
    """The start state: everything has to be listed again."""
    match state:
        case Listed(manner=manner) | Watching(manner=manner):
            return Empty(manner=manner)
        case Listing():
            return Empty(manner=ListMode.UNPAGED)
        case Empty() | InitialWatch():
            return _kept(state)


def _kept(state: State) -> State:
    """The state after the stream or request has ended: what was known stays known, but not what has come of a stream
    of the initial state."""
    match state:
        case Watching(version=version, manner=manner, strikes=strikes):
            return Listed(version=version, manner=manner, strikes=strikes)
        case InitialWatch():
            return Empty(manner=ListMode.PAGED_ONCE)
        case Empty() | Listing() | Listed():
            return state


def _manner(state: State) -> ListMode:
    return ListMode.STREAMED if isinstance(state, InitialWatch) else state.manner


def _went_back(known: str, told: str) -> bool:
    return known.isdigit() and told.isdigit() and int(told) < int(known)


RestartReason: TypeAlias = Literal["closed", "gone", "error", "timeout"]
"""Why an open stream ended: by the server in order, as too old, by an error, or because nothing came for long."""
ConnectivityState: TypeAlias = Literal["reachable", "unreachable", "missing", "forbidden"]
"""missing: the server does not know this kind, because its CRD is not installed."""


class Connectivity(Value):
    """Whether one reflector can reach what it watches."""

    state: ConnectivityState
    error: ApiError | None = None
    """None while reachable."""


def restart_reason(end: End) -> RestartReason | None:
    """Why an open stream ended, for the metric; None if its end says nothing about the connection."""
    match end:
        case Closed():
            return "closed"
        case VersionWentBack():
            return "gone"
        case Failed(means=WatchVerdict.EXPIRED):
            return "gone"
        case Failed(error=error) if not isinstance(error.__cause__, TimeoutError):
            return "error"
        case Failed() | Stalled():
            return "timeout"
        case InitialEventsIgnored() | RelistRequested():
            return None


def connectivity_after(error: ApiError) -> Connectivity:
    """The contact that a failed request shows."""
    match classify(error).read:
        case WatchVerdict.NOT_SERVED:
            return Connectivity(state="missing", error=error)
        case WatchVerdict.FORBIDDEN | WatchVerdict.UNAUTHORIZED:
            return Connectivity(state="forbidden", error=error)
        case (
            WatchVerdict.EXPIRED
            | WatchVerdict.INVALID
            | WatchVerdict.SERVER_ERROR
            | WatchVerdict.UNREACHABLE
            | WatchVerdict.OTHER
        ):
            return Connectivity(state="unreachable", error=error)


TOO_SHORT = 1.0
"""Seconds. A stream that ends sooner, without an event, counts as one that did not open: otherwise a sick server
would get request after request."""


class PauseLength(Enum):
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
    length: PauseLength
    at_least: float = 0.0
    """Seconds that a busy or failing server asks for."""
    restart: RestartReason | None = None
    """The reason why an open stream ended, for the metric; None: none was open, or it is no news."""
    contact: Connectivity | None = None
    """The contact that the request showed. None after an open stream: the next request will show it."""
    emptied: bool = False
    """The server does not know the kind, so there are no such objects any more."""


def pause_after(before: State, end: End, *, lasted: float, delivered: bool) -> WatchPause:
    """The pause after a request or stream, begun in the state `before`, has ended with `end`.

    `lasted`: seconds from the request to the end; `delivered`: whether anything came.
    """
    length = _length(before, end, lasted=lasted, delivered=delivered)
    restart = restart_reason(end) if isinstance(before, InitialWatch | Watching) else None
    if not isinstance(end, Failed):
        return WatchPause(length=length, restart=restart)
    is_news = isinstance(before, Empty | Listing | Listed) and length is not PauseLength.NONE
    return WatchPause(
        length=length,
        at_least=(end.error.retry_after or 0.0) if length in (PauseLength.SHORT, PauseLength.GROWING) else 0.0,
        restart=restart,
        contact=connectivity_after(end.error) if is_news and end.means is not WatchVerdict.EXPIRED else None,
        emptied=end.means is WatchVerdict.NOT_SERVED,
    )


def _length(before: State, end: End, *, lasted: float, delivered: bool) -> PauseLength:
    """A stream that lasted or delivered earns a short pause. If everything has to be listed again, only one that
    lasted does: a list is expensive, and always delivers something."""
    after = on_end(before, end)
    if isinstance(before, Empty) and after != before:
        return PauseLength.NONE
    match end:
        case RelistRequested() | Stalled() | InitialEventsIgnored():
            return PauseLength.NONE
        case Failed(means=WatchVerdict.NOT_SERVED):
            return PauseLength.MISSING
        case Failed(means=WatchVerdict.UNREACHABLE) if not isinstance(before, InitialWatch | Watching):
            return PauseLength.AWAY
        case Closed() | Failed() if isinstance(before, Watching) and (
            lasted >= TOO_SHORT or (delivered and isinstance(after, Listed))
        ):
            return PauseLength.SHORT
        case Closed() | Failed() | VersionWentBack():
            return PauseLength.GROWING
