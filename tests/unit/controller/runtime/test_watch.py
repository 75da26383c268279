"""The list/watch protocol, one row a rule."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api.objects import Key
from controller.kube import errors
from controller.kube.decode import Bookmark, Malformed, Page, Seen
from controller.kube.errors import ApiError
from controller.runtime import watch
from controller.runtime.watch import (
    MAX_FAILURES,
    Closed,
    Connectivity,
    Empty,
    End,
    Failed,
    Init,
    InitDone,
    InitialEventsIgnored,
    InitialWatch,
    Listed,
    Listing,
    ListMode,
    ListPage,
    Next,
    OpenWatch,
    PauseLength,
    RelistRequested,
    Stalled,
    VersionWentBack,
    Watching,
    WatchPause,
    pause_after,
)

A = Key("default", "a")
SEEN = Seen[str](key=A, version="12", obj="a at 12")
BAD = Malformed(key=A, version="12", reason="size")

STREAM, PAGES, PAGES_ONCE, WHOLE = ListMode.STREAMED, ListMode.PAGED, ListMode.PAGED_ONCE, ListMode.UNPAGED
LISTED = Listed(version="10", mode=STREAM)
STREAMING = Watching(version="10", mode=STREAM)


def failed(kind: type[ApiError]) -> Failed:
    return Failed(error=kind("watch", "pods", "no"))


COMMON = (("allowWatchBookmarks", "true"), ("timeoutSeconds", "400"))
INITIAL = (("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan"))


@pytest.mark.parametrize(
    ("state", "request_"),
    [
        (Empty(), OpenWatch(query=(*INITIAL, *COMMON))),
        (LISTED, OpenWatch(query=(("resourceVersion", "10"), *COMMON))),
        (Empty(mode=PAGES), ListPage(limit=500, token="")),
        (Listing(token="t", mode=PAGES), ListPage(limit=500, token="t")),
        (Empty(mode=PAGES_ONCE), ListPage(limit=500, token="")),
        (Empty(mode=WHOLE), ListPage(limit=0, token="")),
    ],
)
def test_what_is_asked_for(state: watch.State, request_: OpenWatch | ListPage) -> None:
    assert watch.next_request(state, 400) == request_
    with pytest.raises(AssertionError):  # without a stream there are no events
        watch.on_event(state, SEEN)


@pytest.mark.parametrize("state", [InitialWatch(), STREAMING])
def test_one_stream_is_open_at_a_time(state: watch.State) -> None:
    for ask in (lambda: watch.next_request(state, 400), lambda: watch.on_open(state)):
        with pytest.raises(AssertionError):
            ask()


def test_opening_fills_at_the_start_and_goes_on_after_a_list() -> None:
    assert watch.on_open(Empty()) == InitialWatch()
    assert watch.on_open(LISTED) == STREAMING


@pytest.mark.parametrize(
    ("state", "event", "after", "told"),
    [
        (InitialWatch(), SEEN, InitialWatch(), SEEN),
        (InitialWatch(), BAD, InitialWatch(), BAD),
        (InitialWatch(), Bookmark(version="10", initial_end=True), STREAMING, InitDone(version="10")),
        (Watching(version="10", mode=STREAM, failures=3), SEEN, Watching(version="12", mode=STREAM), SEEN),
        (STREAMING, BAD, Watching(version="12", mode=STREAM), BAD),
        (STREAMING, Bookmark(version="15"), Watching(version="15", mode=STREAM), Bookmark(version="15")),
        (STREAMING, Malformed(key=A, version="", reason="x"), STREAMING, Malformed(key=A, version="", reason="x")),
    ],
    ids=[
        "while filling, objects do not move the version",
        "while filling, a bad object does no harm",
        "the end mark completes",
        "a change moves the version and forgives earlier failures",
        "a bad object moves the version",
        "a bookmark moves the version",
        "no version, no move",
    ],
)
def test_events(state: watch.State, event: Any, after: InitialWatch | Watching, told: Any) -> None:
    assert watch.on_event(state, event) == Next(state=after, event=told)


@pytest.mark.parametrize(
    ("state", "event", "end", "after"),
    [
        (InitialWatch(), Bookmark(version="10"), InitialEventsIgnored(), Empty(mode=PAGES)),
        (STREAMING, Bookmark(version="9"), VersionWentBack(), Empty()),
        (Watching(version="10", mode=PAGES), Bookmark(version="9"), VersionWentBack(), Empty(mode=PAGES)),
    ],
    ids=[
        "a plain bookmark instead of the end mark: the server ignores sendInitialEvents",
        "a bookmark that goes back: the server was restored",
        "the same of a server that lists in pages",
    ],
)
def test_events_that_show_that_a_stream_is_of_no_use(
    state: watch.State, event: Any, end: End, after: watch.State
) -> None:
    assert watch.on_event(state, event) == end
    assert watch.on_end(state, end) == after


def test_the_pages_of_a_list_are_one_init() -> None:
    a, b = Seen(key=A, version="3", obj="a"), Seen(key=Key("default", "b"), version="4", obj="b")
    state, told = watch.on_page(Empty(mode=PAGES), Page(items=(a,), version="9", token="t"))
    assert (state, told) == (Listing(token="t", mode=PAGES), (Init(), a))
    state, told = watch.on_page(state, Page(items=(b,), version="9"))
    assert (state, told) == (Listed(version="9", mode=PAGES), (b, InitDone(version="9")))


@pytest.mark.parametrize(("mode", "next_"), [(WHOLE, PAGES), (PAGES_ONCE, STREAM), (PAGES, PAGES)])
def test_after_a_list_of_another_mode_the_next_is_as_before(mode: ListMode, next_: ListMode) -> None:
    done = (Init(), InitDone(version="9"))
    assert watch.on_page(Empty(mode=mode), Page[str](items=(), version="9")) == (
        Listed(version="9", mode=next_),
        done,
    )


@pytest.mark.parametrize(
    ("state", "error", "after"),
    [
        (Empty(), errors.Invalid, Empty(mode=PAGES)),
        (Empty(), errors.Forbidden, Empty(mode=PAGES)),
        (Empty(), errors.Unauthorized, Empty()),
        (Empty(), errors.NotFound, Empty()),
        (Empty(), errors.Unreachable, Empty()),
        (Empty(), errors.TooManyRequests, Empty()),
        (Empty(mode=PAGES), errors.Forbidden, Empty(mode=PAGES)),
        (InitialWatch(), None, Empty(mode=PAGES_ONCE)),
        (InitialWatch(), errors.Unreachable, Empty(mode=PAGES_ONCE)),
        (InitialWatch(), errors.Gone, Empty(mode=PAGES_ONCE)),
        (InitialWatch(), errors.ServerError, Empty(mode=PAGES_ONCE)),
        (InitialWatch(), errors.TooManyRequests, Empty(mode=PAGES_ONCE)),
        (InitialWatch(), errors.NotFound, Empty(mode=PAGES_ONCE)),
        (InitialWatch(), errors.Invalid, Empty(mode=PAGES)),
        (InitialWatch(), errors.Forbidden, Empty(mode=PAGES)),
        (InitialWatch(), errors.Unauthorized, Empty(mode=PAGES_ONCE)),
        (Empty(mode=PAGES_ONCE), errors.Unreachable, Empty(mode=PAGES_ONCE)),
        (Listing(token="t", mode=PAGES), errors.Unreachable, Listing(token="t", mode=PAGES)),
        (Listing(token="t", mode=PAGES), errors.Forbidden, Listing(token="t", mode=PAGES)),
        (Listing(token="t", mode=PAGES), errors.ServerError, Listing(token="t", mode=PAGES)),
        (Listing(token="t", mode=PAGES), errors.Gone, Empty(mode=WHOLE)),
        (Listing(token="t", mode=PAGES), errors.Invalid, Empty(mode=WHOLE)),
        (Listing(token="t", mode=PAGES), errors.NotFound, Empty(mode=WHOLE)),
        (STREAMING, None, LISTED),
        (STREAMING, errors.Unreachable, LISTED),
        (STREAMING, errors.Gone, Empty()),
        (STREAMING, errors.ServerError, Listed(version="10", mode=STREAM, failures=1)),
        (STREAMING, errors.Unreadable, Listed(version="10", mode=STREAM, failures=1)),
        (LISTED, errors.Unreachable, LISTED),
        (LISTED, errors.TooManyRequests, LISTED),
        (LISTED, errors.Forbidden, LISTED),
        (LISTED, errors.Unauthorized, LISTED),
        (LISTED, errors.Gone, Empty()),
        (LISTED, errors.Invalid, Empty()),
        (LISTED, errors.NotFound, Empty()),
        (Listed(version="10", mode=PAGES), errors.Gone, Empty(mode=PAGES)),
        (Listed(version="10", mode=STREAM, failures=MAX_FAILURES - 1), errors.ServerError, Empty()),
    ],
)
def test_ends(state: watch.State, error: type[ApiError] | None, after: watch.State) -> None:
    assert watch.on_end(state, failed(error) if error else Closed()) == after


@pytest.mark.parametrize(
    ("state", "after"),
    [
        (STREAMING, Empty()),
        (InitialWatch(), Empty()),
        (Watching(version="1", mode=PAGES), Empty(mode=PAGES)),
        (Listing(token="t", mode=WHOLE), Empty(mode=WHOLE)),
    ],
)
def test_a_doubted_state_starts_over_in_the_manner_that_works(state: watch.State, after: watch.State) -> None:
    assert watch.on_end(state, RelistRequested()) == after
    assert watch.on_end(InitialWatch(), Stalled()) == Empty(mode=PAGES)


FILLING, LISTING = InitialWatch(), Listing(token="t", mode=PAGES)


@pytest.mark.parametrize(
    ("before", "end", "length", "told"),
    [
        (Empty(), errors.Invalid, PauseLength.NONE, {}),
        (Empty(), errors.Forbidden, PauseLength.NONE, {}),
        (Empty(), errors.Unauthorized, PauseLength.GROWING, {"connectivity": "forbidden"}),
        (Empty(), errors.ServerError, PauseLength.GROWING, {"connectivity": "unreachable"}),
        (Empty(), errors.TooManyRequests, PauseLength.GROWING, {"connectivity": "unreachable"}),
        (Empty(), errors.Unreachable, PauseLength.UNREACHABLE, {"connectivity": "unreachable"}),
        (Empty(), errors.NotFound, PauseLength.NOT_SERVED, {"connectivity": "missing", "not_served": True}),
        (Empty(mode=PAGES), errors.Invalid, PauseLength.GROWING, {"connectivity": "unreachable"}),
        (Empty(mode=PAGES), errors.Forbidden, PauseLength.GROWING, {"connectivity": "forbidden"}),
        (FILLING, Stalled(), PauseLength.NONE, {"restart": "timeout"}),
        (FILLING, InitialEventsIgnored(), PauseLength.NONE, {}),
        (FILLING, Closed(), PauseLength.GROWING, {"restart": "closed"}),
        (FILLING, errors.Unreachable, PauseLength.GROWING, {"restart": "error"}),
        (FILLING, errors.Invalid, PauseLength.GROWING, {"restart": "error"}),
        (LISTING, errors.Gone, PauseLength.GROWING, {}),
        (LISTING, errors.Unreachable, PauseLength.UNREACHABLE, {"connectivity": "unreachable"}),
        (LISTING, errors.NotFound, PauseLength.NOT_SERVED, {"connectivity": "missing", "not_served": True}),
        (LISTED, errors.Gone, PauseLength.GROWING, {}),
        (LISTED, errors.Invalid, PauseLength.GROWING, {"connectivity": "unreachable"}),
        (LISTED, errors.Forbidden, PauseLength.GROWING, {"connectivity": "forbidden"}),
        (LISTED, errors.Unreadable, PauseLength.GROWING, {"connectivity": "unreachable"}),
        (LISTED, errors.Unreachable, PauseLength.UNREACHABLE, {"connectivity": "unreachable"}),
        (LISTED, errors.NotFound, PauseLength.NOT_SERVED, {"connectivity": "missing", "not_served": True}),
        (STREAMING, Closed(), PauseLength.GROWING, {"restart": "closed"}),
        (STREAMING, VersionWentBack(), PauseLength.GROWING, {"restart": "gone"}),
        (STREAMING, RelistRequested(), PauseLength.NONE, {}),
        (STREAMING, errors.Gone, PauseLength.GROWING, {"restart": "gone"}),
        (STREAMING, errors.Unreachable, PauseLength.GROWING, {"restart": "error"}),
        (STREAMING, errors.ServerError, PauseLength.GROWING, {"restart": "error"}),
        (STREAMING, errors.NotFound, PauseLength.NOT_SERVED, {"restart": "error", "not_served": True}),
    ],
)
def test_pauses(before: watch.State, end: End | type[ApiError], length: PauseLength, told: dict[str, Any]) -> None:
    """Of a stream: one that ended at once, and brought nothing."""
    ended = failed(end) if isinstance(end, type) else end
    if isinstance(ended, Failed) and "connectivity" in told:
        told = told | {"connectivity": Connectivity(state=told["connectivity"], error=ended.error)}
    assert pause_after(before, ended, lasted=0.9, delivered=False) == WatchPause(length=length, **told)


@pytest.mark.parametrize(
    ("end", "delivered", "lasted"),
    [
        (Closed(), PauseLength.SHORT, PauseLength.SHORT),
        (failed(errors.Unreachable), PauseLength.SHORT, PauseLength.SHORT),
        (failed(errors.ServerError), PauseLength.SHORT, PauseLength.SHORT),
        (failed(errors.Gone), PauseLength.GROWING, PauseLength.SHORT),
        (failed(errors.NotFound), PauseLength.NOT_SERVED, PauseLength.NOT_SERVED),
        (VersionWentBack(), PauseLength.GROWING, PauseLength.GROWING),
        (RelistRequested(), PauseLength.NONE, PauseLength.NONE),
    ],
    ids=["closed", "cut", "sick", "to be listed again", "missing", "went back", "doubted"],
)
def test_a_stream_that_was_of_use_is_opened_again_soon(end: End, delivered: PauseLength, lasted: PauseLength) -> None:
    assert pause_after(STREAMING, end, lasted=0.9, delivered=True).length is delivered
    assert pause_after(STREAMING, end, lasted=1.0, delivered=False).length is lasted
    for nothing_known in (Empty(mode=PAGES), FILLING, LISTING):
        long = pause_after(nothing_known, end, lasted=9.0, delivered=True)
        assert long.length is not PauseLength.SHORT, "a list delivers by itself"


def test_a_pause_is_as_long_as_the_server_asks_at_the_least() -> None:
    busy = Failed(error=errors.TooManyRequests("watch", "pods", "no", retry_after=7.0))
    assert pause_after(LISTED, busy, lasted=0.0, delivered=False).at_least == 7.0
    assert pause_after(STREAMING, busy, lasted=9.0, delivered=False).at_least == 7.0
    refused = Failed(error=errors.Forbidden("watch", "pods", "no", retry_after=7.0))
    assert pause_after(Empty(), refused, lasted=0.0, delivered=False) == WatchPause(length=PauseLength.NONE)
