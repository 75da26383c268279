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
    MOST_STRIKES,
    Closed,
    Contact,
    End,
    Failed,
    Filling,
    Init,
    InitDone,
    Length,
    Listed,
    Listing,
    ListPage,
    Manner,
    Next,
    OpenWatch,
    RelistAsked,
    Stalled,
    Start,
    Streaming,
    Unmarked,
    WatchPause,
    WentBack,
    pause_after,
)

A = Key("default", "a")
SEEN = Seen[str](key=A, version="12", obj="a at 12")
BAD = Malformed(key=A, version="12", reason="size")

STREAM, PAGES, PAGES_ONCE, WHOLE = Manner.STREAM, Manner.PAGES, Manner.PAGES_ONCE, Manner.WHOLE
LISTED = Listed(version="10", manner=STREAM)
STREAMING = Streaming(version="10", manner=STREAM)


def failed(kind: type[ApiError]) -> Failed:
    return Failed(error=kind("watch", "pods", "no"))


@pytest.mark.parametrize(
    ("state", "query"),
    [
        (
            Start(),
            {
                "sendInitialEvents": "true",
                "resourceVersionMatch": "NotOlderThan",
                "allowWatchBookmarks": "true",
                "timeoutSeconds": "400",
            },
        ),
        (LISTED, {"resourceVersion": "10", "allowWatchBookmarks": "true", "timeoutSeconds": "400"}),
    ],
)
def test_which_watch_is_asked_for(state: watch.State, query: dict[str, str]) -> None:
    wanted = watch.ask(state, 400)
    assert isinstance(wanted, OpenWatch)
    assert dict(wanted.query) == query


@pytest.mark.parametrize(
    ("state", "page"),
    [
        (Start(manner=PAGES), ListPage(limit=500, token="")),
        (Listing(token="t", manner=PAGES), ListPage(limit=500, token="t")),
        (Start(manner=PAGES_ONCE), ListPage(limit=500, token="")),
        (Start(manner=WHOLE), ListPage(limit=0, token="")),
    ],
)
def test_which_page_is_asked_for(state: watch.State, page: ListPage) -> None:
    assert watch.ask(state, 400) == page


def test_nothing_is_asked_for_while_a_stream_is_open() -> None:
    with pytest.raises(AssertionError):
        watch.ask(STREAMING, 400)


@pytest.mark.parametrize("state", [Start(), Listing(token="t", manner=PAGES), LISTED])
def test_without_a_stream_there_are_no_events(state: watch.State) -> None:
    with pytest.raises(AssertionError):
        watch.on_event(state, SEEN)


@pytest.mark.parametrize("state", [Start(manner=PAGES), Listing(token="t", manner=PAGES), Filling(), STREAMING])
def test_what_was_not_asked_for_is_not_opened(state: watch.State) -> None:
    with pytest.raises(AssertionError):
        watch.on_open(state)


def test_opening_fills_at_the_start_and_goes_on_after_a_list() -> None:
    assert watch.on_open(Start()) == (Filling(), (Init(),))
    assert watch.on_open(LISTED) == (STREAMING, ())


@pytest.mark.parametrize(
    ("state", "event", "after", "told"),
    [
        (Filling(), SEEN, Filling(), SEEN),
        (Filling(), BAD, Filling(), BAD),
        (Filling(), Bookmark(version="10", initial_end=True), STREAMING, InitDone(version="10")),
        (STREAMING, SEEN, Streaming(version="12", manner=STREAM), SEEN),
        (STREAMING, BAD, Streaming(version="12", manner=STREAM), BAD),
        (STREAMING, Bookmark(version="15"), Streaming(version="15", manner=STREAM), Bookmark(version="15")),
        (STREAMING, Malformed(key=A, version="", reason="x"), STREAMING, Malformed(key=A, version="", reason="x")),
    ],
    ids=[
        "while filling, objects do not move the version",
        "while filling, a bad object does no harm",
        "the end mark completes",
        "a change moves the version",
        "a bad object moves the version",
        "a bookmark moves the version",
        "no version, no move",
    ],
)
def test_events(state: watch.State, event: Any, after: Filling | Streaming, told: Any) -> None:
    assert watch.on_event(state, event) == Next(state=after, event=told)


@pytest.mark.parametrize(
    ("state", "event", "end", "after"),
    [
        (Filling(), Bookmark(version="10"), Unmarked(), Start(manner=PAGES)),
        (STREAMING, Bookmark(version="9"), WentBack(), Start()),
        (Streaming(version="10", manner=PAGES), Bookmark(version="9"), WentBack(), Start(manner=PAGES)),
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


def test_a_change_forgives_earlier_failures() -> None:
    assert watch.on_event(Streaming(version="10", manner=STREAM, strikes=3), SEEN) == Next(
        state=Streaming(version="12", manner=STREAM, strikes=0), event=SEEN
    )


def test_the_pages_of_a_list_are_one_init() -> None:
    a, b = Seen(key=A, version="3", obj="a"), Seen(key=Key("default", "b"), version="4", obj="b")
    state, told = watch.on_page(Start(manner=PAGES), Page(items=(a,), version="9", token="t"))
    assert (state, told) == (Listing(token="t", manner=PAGES), (Init(), a))
    state, told = watch.on_page(state, Page(items=(b,), version="9"))
    assert (state, told) == (Listed(version="9", manner=PAGES), (b, InitDone(version="9")))


def test_after_one_whole_list_it_is_pages_again() -> None:
    state, told = watch.on_page(Start(manner=WHOLE), Page[str](items=(), version="9"))
    assert (state, told) == (Listed(version="9", manner=PAGES), (Init(), InitDone(version="9")))


def test_after_a_broken_initial_stream_and_a_list_it_streams_again() -> None:
    state, _ = watch.on_page(Start(manner=PAGES_ONCE), Page[str](items=(), version="9", token="t"))
    assert state == Listing(token="t", manner=PAGES_ONCE)
    state, _ = watch.on_page(state, Page[str](items=(), version="10"))
    assert state == LISTED


def test_a_stream_that_does_not_end_its_filling_is_not_tried_again() -> None:
    assert watch.on_end(Filling(), Stalled()) == Start(manner=PAGES)


@pytest.mark.parametrize(
    ("state", "error", "after"),
    [
        (Start(), errors.Invalid, Start(manner=PAGES)),
        (Start(), errors.Forbidden, Start(manner=PAGES)),
        (Start(), errors.Unauthorized, Start()),
        (Start(), errors.NotFound, Start()),
        (Start(), errors.Unreachable, Start()),
        (Start(), errors.Busy, Start()),
        (Start(manner=PAGES), errors.Forbidden, Start(manner=PAGES)),
        (Filling(), None, Start(manner=PAGES_ONCE)),
        (Filling(), errors.Unreachable, Start(manner=PAGES_ONCE)),
        (Filling(), errors.Gone, Start(manner=PAGES_ONCE)),
        (Filling(), errors.ServerError, Start(manner=PAGES_ONCE)),
        (Filling(), errors.Busy, Start(manner=PAGES_ONCE)),
        (Filling(), errors.NotFound, Start(manner=PAGES_ONCE)),
        (Filling(), errors.Invalid, Start(manner=PAGES)),
        (Filling(), errors.Forbidden, Start(manner=PAGES)),
        (Filling(), errors.Unauthorized, Start(manner=PAGES_ONCE)),
        (Start(manner=PAGES_ONCE), errors.Unreachable, Start(manner=PAGES_ONCE)),
        (Listing(token="t", manner=PAGES), errors.Unreachable, Listing(token="t", manner=PAGES)),
        (Listing(token="t", manner=PAGES), errors.Forbidden, Listing(token="t", manner=PAGES)),
        (Listing(token="t", manner=PAGES), errors.ServerError, Listing(token="t", manner=PAGES)),
        (Listing(token="t", manner=PAGES), errors.Gone, Start(manner=WHOLE)),
        (Listing(token="t", manner=PAGES), errors.Invalid, Start(manner=WHOLE)),
        (Listing(token="t", manner=PAGES), errors.NotFound, Start(manner=WHOLE)),
        (STREAMING, None, LISTED),
        (STREAMING, errors.Unreachable, LISTED),
        (STREAMING, errors.Gone, Start()),
        (STREAMING, errors.ServerError, Listed(version="10", manner=STREAM, strikes=1)),
        (STREAMING, errors.Unreadable, Listed(version="10", manner=STREAM, strikes=1)),
        (LISTED, errors.Unreachable, LISTED),
        (LISTED, errors.Busy, LISTED),
        (LISTED, errors.Forbidden, LISTED),
        (LISTED, errors.Unauthorized, LISTED),
        (LISTED, errors.Gone, Start()),
        (LISTED, errors.Invalid, Start()),
        (LISTED, errors.NotFound, Start()),
        (Listed(version="10", manner=PAGES), errors.Gone, Start(manner=PAGES)),
        (Listed(version="10", manner=STREAM, strikes=MOST_STRIKES - 1), errors.ServerError, Start()),
    ],
)
def test_ends(state: watch.State, error: type[ApiError] | None, after: watch.State) -> None:
    assert watch.on_end(state, failed(error) if error else Closed()) == after


@pytest.mark.parametrize(
    ("state", "after"),
    [
        (STREAMING, Start()),
        (Filling(), Start()),
        (Streaming(version="1", manner=PAGES), Start(manner=PAGES)),
        (Listing(token="t", manner=WHOLE), Start(manner=WHOLE)),
    ],
)
def test_a_doubted_state_starts_over_in_the_manner_that_works(state: watch.State, after: watch.State) -> None:
    assert watch.on_end(state, RelistAsked()) == after


FILLING, LISTING = Filling(), Listing(token="t", manner=PAGES)


@pytest.mark.parametrize(
    ("before", "end", "length", "told"),
    [
        (Start(), errors.Invalid, Length.NONE, {}),
        (Start(), errors.Forbidden, Length.NONE, {}),
        (Start(), errors.Unauthorized, Length.GROWING, {"contact": "forbidden"}),
        (Start(), errors.ServerError, Length.GROWING, {"contact": "unreachable"}),
        (Start(), errors.Busy, Length.GROWING, {"contact": "unreachable"}),
        (Start(), errors.Unreachable, Length.AWAY, {"contact": "unreachable"}),
        (Start(), errors.NotFound, Length.MISSING, {"contact": "missing", "emptied": True}),
        (Start(manner=PAGES), errors.Invalid, Length.GROWING, {"contact": "unreachable"}),
        (Start(manner=PAGES), errors.Forbidden, Length.GROWING, {"contact": "forbidden"}),
        (FILLING, Stalled(), Length.NONE, {"restart": "timeout"}),
        (FILLING, Unmarked(), Length.NONE, {}),
        (FILLING, Closed(), Length.GROWING, {"restart": "closed"}),
        (FILLING, errors.Unreachable, Length.GROWING, {"restart": "error"}),
        (FILLING, errors.Invalid, Length.GROWING, {"restart": "error"}),
        (LISTING, errors.Gone, Length.GROWING, {}),
        (LISTING, errors.Unreachable, Length.AWAY, {"contact": "unreachable"}),
        (LISTING, errors.NotFound, Length.MISSING, {"contact": "missing", "emptied": True}),
        (LISTED, errors.Gone, Length.GROWING, {}),
        (LISTED, errors.Invalid, Length.GROWING, {"contact": "unreachable"}),
        (LISTED, errors.Forbidden, Length.GROWING, {"contact": "forbidden"}),
        (LISTED, errors.Unreadable, Length.GROWING, {"contact": "unreachable"}),
        (LISTED, errors.Unreachable, Length.AWAY, {"contact": "unreachable"}),
        (LISTED, errors.NotFound, Length.MISSING, {"contact": "missing", "emptied": True}),
        (STREAMING, Closed(), Length.GROWING, {"restart": "closed"}),
        (STREAMING, WentBack(), Length.GROWING, {"restart": "gone"}),
        (STREAMING, RelistAsked(), Length.NONE, {}),
        (STREAMING, errors.Gone, Length.GROWING, {"restart": "gone"}),
        (STREAMING, errors.Unreachable, Length.GROWING, {"restart": "error"}),
        (STREAMING, errors.ServerError, Length.GROWING, {"restart": "error"}),
        (STREAMING, errors.NotFound, Length.MISSING, {"restart": "error", "emptied": True}),
    ],
)
def test_pauses(before: watch.State, end: End | type[ApiError], length: Length, told: dict[str, Any]) -> None:
    """Of a stream: one that ended at once, and brought nothing."""
    ended = failed(end) if isinstance(end, type) else end
    if isinstance(ended, Failed) and "contact" in told:
        told = told | {"contact": Contact(state=told["contact"], error=ended.error)}
    assert pause_after(before, ended, lasted=0.9, delivered=False) == WatchPause(length=length, **told)


@pytest.mark.parametrize(
    ("end", "delivered", "lasted"),
    [
        (Closed(), Length.SHORT, Length.SHORT),
        (failed(errors.Unreachable), Length.SHORT, Length.SHORT),
        (failed(errors.ServerError), Length.SHORT, Length.SHORT),
        (failed(errors.Gone), Length.GROWING, Length.SHORT),
        (failed(errors.NotFound), Length.MISSING, Length.MISSING),
        (WentBack(), Length.GROWING, Length.GROWING),
        (RelistAsked(), Length.NONE, Length.NONE),
    ],
    ids=["closed", "cut", "sick", "to be listed again", "missing", "went back", "doubted"],
)
def test_a_stream_that_was_of_use_is_opened_again_soon(end: End, delivered: Length, lasted: Length) -> None:
    assert pause_after(STREAMING, end, lasted=0.9, delivered=True).length is delivered
    assert pause_after(STREAMING, end, lasted=1.0, delivered=False).length is lasted
    for nothing_known in (Start(manner=PAGES), FILLING, LISTING):
        long = pause_after(nothing_known, end, lasted=9.0, delivered=True)
        assert long.length is not Length.SHORT, "a list delivers by itself"


def test_a_pause_is_as_long_as_the_server_asks_at_the_least() -> None:
    busy = Failed(error=errors.Busy("watch", "pods", "no", retry_after=7.0))
    assert pause_after(LISTED, busy, lasted=0.0, delivered=False).at_least == 7.0
    assert pause_after(STREAMING, busy, lasted=9.0, delivered=False).at_least == 7.0
    refused = Failed(error=errors.Forbidden("watch", "pods", "no", retry_after=7.0))
    assert pause_after(Start(), refused, lasted=0.0, delivered=False) == WatchPause(length=Length.NONE)
