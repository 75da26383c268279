"""The list/watch protocol as states and transitions. No I/O, no clock, no randomness.

    Empty ──open──▶ InitialWatch ──initial-events-end──▶ Watching ◀──open── Listed
      │                                                     │                 ▲ ▲
      └──page──▶ Listing ──last page────────────────────────│─────────────────┘ │
                                                            └───────end─────────┘

| what comes | next state | pause |
|---|---|---|
| a page, and more follow | Listing | none |
| the last page | Listed | none |
| an object, or a malformed one | the same, at its version | none |
| a bookmark | Watching at its version; a lower one: Empty | none; growing |
| the stream is closed or cut, or idle for 150 s | Listed at the last version | short or growing ¹ |
| 410 Gone | Empty | short or growing ¹ |
| the server is not reached | the same | 1 to 2 s |
| 404: the kind is not served | Empty | a few seconds |
| any other error | Listed if Watching, else the same; Empty after `MAX_FAILURES` in a row | short or growing ¹ |

¹ Short after Watching for `MIN_STREAM_SECONDS`, or for less with an event unless Empty follows; else growing.

The initial state comes as a stream where the server supports that (WatchList; only with `allowWatchBookmarks` does it
send the bookmark that ends the initial state), else as a list in pages. A server that refuses this stream, or never
ends it, is asked for pages from then on. If the stream breaks off, only the next list comes in pages, as in
client-go. Both are consistent reads: from a stale start, pods could be created twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, Generic, Literal, TypeAlias, TypeVar

from controller.api.objects import Value
from controller.kube.decode import Bookmark, Malformed, Page, Seen, WatchEvent
from controller.kube.errors import ApiError, WatchVerdict, classify
from controller.kube.requests import PAGE_SIZE, Query

T = TypeVar("T")

MAX_FAILURES = 5
"""Watch failures from one version, apart from lost connections, after which everything is listed again."""
MIN_STREAM_SECONDS = 1.0
"""A shorter stream without an event counts as failed; otherwise a failing server would get many requests."""


class ListMode(Enum):
    STREAMED = "streamed"
    PAGED = "paged"
    PAGED_ONCE = "paged once"
    """One list in pages, because the initial stream broke off."""
    UNPAGED = "unpaged"
    """One list without pages, because a page token expired."""

    @property
    def next(self) -> ListMode:
        return {ListMode.PAGED_ONCE: ListMode.STREAMED, ListMode.UNPAGED: ListMode.PAGED}.get(self, self)


class Empty(Value):
    """Nothing is known, or what was known is discarded."""

    mode: ListMode = ListMode.STREAMED


class InitialWatch(Value):
    """A stream of the initial state is open, without its final bookmark yet."""

    mode: ListMode = ListMode.STREAMED


class Listing(Value):
    """Some pages of a list have come, and more follow."""

    token: str
    mode: ListMode


class Listed(Value):
    """Everything is known as of `version`; no stream is open."""

    version: str
    mode: ListMode
    failures: int = 0


class Watching(Value):
    """Everything is known as of `version`, and a stream of changes is open."""

    version: str
    mode: ListMode
    failures: int = 0


State: TypeAlias = Empty | InitialWatch | Listing | Listed | Watching


class ListPage(Value):
    limit: int
    """0 for all that is left."""
    token: str


class OpenWatch(Value):
    query: Query


class Init(Value):
    """The store starts a new buffer; all objects follow."""


class InitDone(Value):
    """All objects as of `version` have come; the buffer replaces the content of the store."""

    version: str


StoreEvent: TypeAlias = Init | InitDone | Seen[T] | Malformed | Bookmark


class Closed(Value):
    """The server closed the stream, as it does every few minutes."""


class Failed(Value, gc=True):
    """The request was refused or not answered, or the stream broke."""

    error: ApiError

    @property
    def verdict(self) -> WatchVerdict:
        return classify(self.error).watch


class Stalled(Value):
    """The stream of the initial state was silent for too long before it was complete."""


class InitialEventsIgnored(Value):
    """An ordinary bookmark came in the initial state: the server ignores `sendInitialEvents`."""


class VersionWentBack(Value):
    """The server's version is lower than the known one: its storage was restored from a backup."""


class RelistRequested(Value):
    """`Reflector.relist` was called."""


End: TypeAlias = Closed | Failed | Stalled | InitialEventsIgnored | VersionWentBack | RelistRequested
"""How a request or stream ended. A page of a list is not an end."""


class Next(Value, Generic[T]):
    state: Watching | InitialWatch
    event: StoreEvent[T]


def next_request(state: State, timeout_seconds: int) -> ListPage | OpenWatch:
    """The request for a state. `timeout_seconds` for the server's end of a watch should be random, 300 to 600, as in
    client-go, so that watches do not all end at once. Raises AssertionError while a stream is open."""
    common = (("allowWatchBookmarks", "true"), ("timeoutSeconds", str(timeout_seconds)))
    match state:
        case Empty(mode=ListMode.STREAMED):
            return OpenWatch(query=(("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan"), *common))
        case Empty() | Listing():
            token = state.token if isinstance(state, Listing) else ""
            return ListPage(limit=0 if state.mode is ListMode.UNPAGED else PAGE_SIZE, token=token)
        case Listed(version=version):
            return OpenWatch(query=(("resourceVersion", version), *common))
        case InitialWatch() | Watching():
            raise AssertionError("a stream is open")


def on_open(state: State) -> Watching | InitialWatch:
    """The server accepted the watch. Raises AssertionError in a state that does not open one."""
    match state:
        case Listed(version=version, mode=mode, failures=failures):
            return Watching(version=version, mode=mode, failures=failures)
        case Empty(mode=ListMode.STREAMED):
            return InitialWatch()
        case Empty() | InitialWatch() | Listing() | Watching():
            raise AssertionError("no stream was asked for")


def on_page(state: State, page: Page[T]) -> tuple[State, tuple[StoreEvent[T], ...]]:
    """The next state and the store events for a page of a list: Init first, InitDone after the last page."""
    first: tuple[StoreEvent[T], ...] = () if isinstance(state, Listing) else (Init(),)
    if page.token:
        return Listing(token=page.token, mode=state.mode), (*first, *page.items)
    done = InitDone(version=page.version)
    return Listed(version=page.version, mode=state.mode.next), (*first, *page.items, done)


def on_event(state: State, event: WatchEvent[T]) -> Next[T] | InitialEventsIgnored | VersionWentBack:
    """The result of an event of the open stream; an `End` closes it. Raises AssertionError without an open stream."""
    if isinstance(state, Watching):
        if isinstance(event, Bookmark) and _went_back(state.version, event.version):
            return VersionWentBack()
        return Next(state=Watching(version=event.version or state.version, mode=state.mode), event=event)
    if not isinstance(state, InitialWatch):
        raise AssertionError("no stream is open")
    if not isinstance(event, Bookmark):
        return Next(state=state, event=event)
    if event.initial_end:
        return Next(state=Watching(version=event.version, mode=state.mode), event=InitDone(version=event.version))
    return InitialEventsIgnored()


def _went_back(known: str, received: str) -> bool:
    return known.isdigit() and received.isdigit() and int(received) < int(known)


def on_end(state: State, end: End) -> State:
    """The next state after `end`. What is known is kept, except after 410 and the like."""
    match end:
        case RelistRequested() | VersionWentBack():
            return Empty(mode=state.mode)
        case Stalled() | InitialEventsIgnored() if isinstance(state, InitialWatch):
            return Empty(mode=ListMode.PAGED)
        case Closed() | Stalled() | InitialEventsIgnored():
            return _disconnected(state)
        case Failed(verdict=verdict):
            return _failed(state, verdict)


def _failed(state: State, verdict: WatchVerdict) -> State:
    is_streamed_list = isinstance(state, InitialWatch) or state == Empty(mode=ListMode.STREAMED)
    match verdict:
        case WatchVerdict.INVALID | WatchVerdict.FORBIDDEN if is_streamed_list:
            return Empty(mode=ListMode.PAGED)
        case WatchVerdict.EXPIRED | WatchVerdict.INVALID | WatchVerdict.NOT_SERVED:
            return _discarded(state)
        case WatchVerdict.SERVER_ERROR if isinstance(state, Listed | Watching):
            failures = state.failures + 1
            if failures >= MAX_FAILURES:
                return _discarded(state)
            return Listed(version=state.version, mode=state.mode, failures=failures)
        case _:
            return _disconnected(state)


def _discarded(state: State) -> State:
    match state:
        case Listed(mode=mode) | Watching(mode=mode):
            return Empty(mode=mode)
        case Listing():
            return Empty(mode=ListMode.UNPAGED)
        case Empty() | InitialWatch():
            return _disconnected(state)


def _disconnected(state: State) -> State:
    match state:
        case Watching(version=version, mode=mode, failures=failures):
            return Listed(version=version, mode=mode, failures=failures)
        case InitialWatch():
            return Empty(mode=ListMode.PAGED_ONCE)
        case Empty() | Listing() | Listed():
            return state


RestartReason: TypeAlias = Literal["closed", "gone", "error", "timeout"]
"""Why an open stream ended. gone: the version is too old. timeout: no byte for too long."""


ConnectivityState: TypeAlias = Literal["reachable", "unreachable", "missing", "forbidden"]
"""missing: the kind is not served, because its CRD is not installed."""
_SHOWN: Final[Mapping[WatchVerdict, ConnectivityState]] = {
    WatchVerdict.NOT_SERVED: "missing",
    WatchVerdict.FORBIDDEN: "forbidden",
    WatchVerdict.UNAUTHORIZED: "forbidden",
}


class Connectivity(Value):
    state: ConnectivityState
    error: ApiError | None = None


class PauseLength(Enum):
    """The bounds in seconds of a pause, which is random so that clients do not come back together."""

    _value_: tuple[float, float]
    NONE = (0.0, 0.0)
    """Asks for the initial state in another mode, or after `relist`."""
    SHORT = (0.0, 1.0)
    """After a stream that lasted or delivered, however it ended: load balancers cut idle connections."""
    UNREACHABLE = (1.0, 2.0)
    """The server is not reached: an attempt costs it nothing, and passes wait for the next success."""
    NOT_SERVED = (2.0, 4.0)
    """The CRD is probably about to be installed."""
    GROWING = (0.8, 30.0)
    """Any other failure: first and longest pause, doubling, plus up to 100 % jitter, as in client-go's reflector."""


class WatchPause(Value):
    length: PauseLength
    at_least: float = 0.0
    """Seconds requested by a busy or failing server (Retry-After)."""
    restart: RestartReason | None = None
    """Why an open stream ended, for the metric; None if none was open or the end was expected."""
    connectivity: Connectivity | None = None
    """What the request showed; None after an open stream, because the next request will show it."""
    not_served: bool = False
    """The kind is not served, so it has no objects any more."""


def pause_after(before: State, end: End, *, lasted: float, delivered: bool) -> WatchPause:
    """The pause after a request or stream that began in state `before` and lasted `lasted` seconds. `delivered`:
    whether anything came."""
    length = _length(before, end, lasted=lasted, delivered=delivered)
    is_stream = isinstance(before, InitialWatch | Watching)
    restart = _restart_reason(end) if is_stream else None
    if not isinstance(end, Failed):
        return WatchPause(length=length, restart=restart)
    shows = not is_stream and length is not PauseLength.NONE and end.verdict is not WatchVerdict.EXPIRED
    return WatchPause(
        length=length,
        at_least=(end.error.retry_after or 0.0) if length in (PauseLength.SHORT, PauseLength.GROWING) else 0.0,
        restart=restart,
        connectivity=Connectivity(state=_SHOWN.get(end.verdict, "unreachable"), error=end.error) if shows else None,
        not_served=end.verdict is WatchVerdict.NOT_SERVED,
    )


def _length(before: State, end: End, *, lasted: float, delivered: bool) -> PauseLength:
    """The pause is short after a stream that lasted or delivered something; before a new list, which is expensive and
    always delivers something, only after one that lasted."""
    after = on_end(before, end)
    if isinstance(before, Empty) and after != before:
        return PauseLength.NONE
    match end:
        case RelistRequested() | Stalled() | InitialEventsIgnored():
            return PauseLength.NONE
        case Failed(verdict=WatchVerdict.NOT_SERVED):
            return PauseLength.NOT_SERVED
        case Failed(verdict=WatchVerdict.UNREACHABLE) if not isinstance(before, InitialWatch | Watching):
            return PauseLength.UNREACHABLE
        case Closed() | Failed() if isinstance(before, Watching) and (
            lasted >= MIN_STREAM_SECONDS or (delivered and isinstance(after, Listed))
        ):
            return PauseLength.SHORT
        case Closed() | Failed() | VersionWentBack():
            return PauseLength.GROWING


def _restart_reason(end: End) -> RestartReason | None:
    match end:
        case Closed():
            return "closed"
        case VersionWentBack() | Failed(verdict=WatchVerdict.EXPIRED):
            return "gone"
        case Failed(error=error) if not isinstance(error.__cause__, TimeoutError):
            return "error"
        case Failed() | Stalled():
            return "timeout"
        case InitialEventsIgnored() | RelistRequested():
            return None
