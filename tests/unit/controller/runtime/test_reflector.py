"""What a reflector asks for, takes into its store and tells its listeners, and how long it waits."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from controller.kube.client import Client
from controller.kube.decode import Malformed
from controller.kube.requests import NotConnected
from controller.kube.sender import Sender
from controller.runtime.reflector import CHANGE_WEIGHT, SLICE, Received, Reflector, Restarted, Restored
from controller.runtime.store import Change
from controller.runtime.watch import Connectivity
from tests.beds.sample_kind import THINGS, Thing, ThingView, bookmark, error_line, line, page, status, thing
from tests.beds.scripted import Answer, Script, Watch, ok
from tests.beds.stores import open_store
from tests.beds.virtual_time import now, virtual_time_from

FULL = [line("ADDED", thing("a", 3)), line("ADDED", thing("b", 4)), bookmark(10, end=True)]
REFUSED = Watch([status(422, "Invalid")], status=422)
MISSING = Watch([b"404 page not found"], status=404)
QUIET: float = 1000.0
"""Seconds of silence: longer than a test looks, shorter than none."""


class Mirror:
    """A reflector under test, its store, and everything that it reported."""

    def __init__(self, script: Script, chance: float, *, custom: bool, namespace: str) -> None:
        writer, self.store = open_store(Thing)
        self.changes: list[Change[Thing]] = []
        self.connectivity: list[Connectivity] = []
        self.malformed: list[str] = []
        self.restarts: list[str] = []
        self.restored: list[str] = []
        """What the store showed each time when a list was older."""
        self.received = 0
        self.doubts_at = ""
        """The name whose change makes the reader ask for a list."""
        self.reflector = Reflector[ThingView, Thing](
            Client(Sender(script)),
            replace(THINGS, custom=custom),
            writer,
            namespace=namespace,
            chance=lambda: chance,
        )

    async def run(self) -> None:
        async for event in self.reflector.events():
            match event:
                case Change(key=key, new=new):
                    self.changes.append(event)
                    if new and key.name == self.doubts_at:
                        self.reflector.relist()
                case Malformed(key=key):
                    self.malformed.append(key.name)
                case Connectivity():
                    self.connectivity.append(event)
                case Restarted(reason=reason):
                    self.restarts.append(reason)
                case Received():
                    self.received += 1
                case Restored():
                    self.restored.append(self.names)

    @property
    def names(self) -> str:
        return "".join(sorted(one.name for one in self.store.values()))


@asynccontextmanager
async def mirrored(
    *answers: Answer, chance: float = 0.0, custom: bool = False, namespace: str = ""
) -> AsyncIterator[tuple[Mirror, Script]]:
    """A reflector that runs on this script. `chance` 0 is no jitter, 1 the most."""
    script = Script(*answers)
    mirror = Mirror(script, chance, custom=custom, namespace=namespace)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(mirror.run())
        try:
            yield mirror, script
        finally:
            running.cancel()


async def when(condition: Callable[[], bool], what: str, seconds: float = 300.0, every: float = 0.05) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(every)
    assert condition(), what


async def gaps(script: Script, requests: int, *, first: int = 0, seconds: float = 500.0) -> list[float]:
    """The seconds between the requests from `first` on, once there are so many."""
    await when(lambda: len(script.requests) == requests, "too few requests", seconds=seconds)
    return [round(b - a, 1) for a, b in itertools.pairwise(script.times[first:])]


def asked(script: Script) -> list[str]:
    """The requests, each in a word or two."""
    words = []
    for request in script.requests:
        query = dict(request.query)
        if "watch" not in query:
            words.append(f"list {query.get('limit', 'all')}{' +' if 'continue' in query else ''}")
        elif "sendInitialEvents" in query:
            words.append("watchlist")
        else:
            words.append(f"watch {query['resourceVersion']}")
    return words


@virtual_time_from(1000.0)
async def test_a_stream_fills_the_store_and_goes_on() -> None:
    async with mirrored(Watch([*FULL, 1.0, line("ADDED", thing("c", 11)), QUIET])) as (mirror, script):
        await mirror.reflector.synced()
        assert (mirror.names, mirror.store.progress_in("").version) == ("ab", 10)
        await when(lambda: mirror.names == "abc", "the change after the end mark is not in the store")
        assert [change.key.name for change in mirror.changes] == ["a", "b", "c"]
        assert asked(script) == ["watchlist"]
        assert script.requests[0].path == "/apis/example.com/v1/things"


@virtual_time_from(1000.0)
async def test_other_tasks_get_their_turn_in_a_flood() -> None:
    flood = b"".join(line("MODIFIED", thing("a", n)) for n in range(20, 20 + 10 * SLICE))
    async with mirrored(Watch([*FULL, flood, QUIET])) as (mirror, _):
        await mirror.reflector.synced()
        seen = set[int]()
        while mirror.store.progress_in("").version < 19 + 10 * SLICE:
            seen.add(mirror.store.progress_in("").version)
            await asyncio.sleep(0)
        assert len(seen) >= 10


@virtual_time_from(1000.0)
async def test_a_refused_stream_leads_to_pages_at_once_and_for_good() -> None:
    async with mirrored(
        REFUSED,
        ok(page(thing("a", 3), version=10, token="t")),
        ok(page(thing("b", 4), version=10)),
        Watch([error_line(410)]),
        ok(page(thing("a", 3), thing("b", 4), thing("c", 5), version=20)),
        Watch([QUIET]),
        namespace="default",
    ) as (mirror, script):
        began = now()
        await when(lambda: mirror.names == "abc", "the third list is not in the store")
        assert asked(script) == ["watchlist", "list 500", "list 500 +", "watch 10", "list 500", "watch 20"]
        assert now() - began < 3
        assert [one.state for one in mirror.connectivity] == ["reachable"]
        assert {request.path for request in script.requests} == {"/apis/example.com/v1/namespaces/default/things"}


@virtual_time_from(1000.0)
async def test_a_malformed_object_is_reported_and_the_others_go_on() -> None:
    bad = line("MODIFIED", thing("a", 11, size="big"))
    async with mirrored(Watch([*FULL, bad, line("ADDED", thing("c", 12)), QUIET])) as (mirror, _):
        await when(lambda: mirror.names == "abc", "the object after the malformed one is not in the store")
        assert mirror.malformed == ["a"]
        found = mirror.store.get(next(iter(mirror.store.malformed)))
        assert found is not None
        assert found.version == "3", "the last good state is gone"


@virtual_time_from(1000.0)
async def test_a_server_that_is_away_is_looked_for_every_second_and_said_once() -> None:
    reset, down = ConnectionResetError("reset"), NotConnected("refused")
    async with mirrored(Watch([*FULL, 2.0]), Watch([reset]), *[down] * 7, Watch([QUIET])) as (mirror, script):
        waits = await gaps(script, 10, first=1)
        assert waits == [0.8, *[1.0] * 7], "a broken stream backs off, a refused connection does not"
        await asyncio.sleep(1)
        assert [one.state for one in mirror.connectivity] == ["reachable", "unreachable", "reachable"]
        assert "refused" in str(mirror.connectivity[1].error)


@pytest.mark.parametrize(("custom", "left"), [(True, ""), (False, "ab")], ids=["custom", "built in"])
@virtual_time_from(1000.0)
async def test_with_a_kind_that_is_not_known_any_more_its_objects_are_gone(custom: bool, left: str) -> None:
    """A server always knows what is built in: what answers 404 for that is none."""
    answers = Watch([*FULL, 2.0]), *[MISSING] * 3, Watch([*FULL, QUIET])
    async with mirrored(*answers, custom=custom) as (mirror, script):
        await mirror.reflector.synced()
        await when(lambda: len(script.requests) == 4, "too few requests")
        assert mirror.names == left
        assert [change.key.name for change in mirror.changes if change.new is None] == ["a", "b"][: 2 * custom]
        await when(lambda: mirror.names == "ab", "it is installed again")


@virtual_time_from(1000.0)
async def test_a_kind_that_was_never_known_has_no_list_and_is_asked_for() -> None:
    async with mirrored(*[MISSING] * 8, Watch([*FULL, QUIET]), custom=True) as (mirror, script):
        assert await gaps(script, 8) == [2.0] * 7
        assert not mirror.store.filled
        await mirror.reflector.synced()


@pytest.mark.parametrize("away", [Watch(status=503), MISSING], ids=["failing", "missing"])
@virtual_time_from(1000.0)
async def test_relist_wakes_a_reflector_that_waits_for_its_next_try(away: Watch) -> None:
    cut = Watch([*FULL, ConnectionResetError("reset")])
    async with mirrored(cut, *[away] * 4, Watch([*FULL, QUIET])) as (mirror, script):
        await when(lambda: len(script.requests) == 5, "too few requests")
        began = now()
        mirror.reflector.relist()
        await mirror.reflector.synced()
        assert now() - began < 0.1
        assert asked(script)[1] == "watch 10"
        assert asked(script)[-1] == "watchlist"


@virtual_time_from(1000.0)
async def test_relist_breaks_off_the_stream_and_starts_over_at_once() -> None:
    second = Watch([line("ADDED", thing("a", 3)), bookmark(11, end=True), QUIET])
    async with mirrored(Watch([*FULL, QUIET]), second) as (mirror, script):
        await mirror.reflector.synced()
        began = now()
        mirror.reflector.relist()
        await when(lambda: mirror.names == "a", "the second list is not in the store")
        assert asked(script) == ["watchlist", "watchlist"]
        assert now() - began < 1


@virtual_time_from(1000.0)
async def test_relist_upon_a_change_is_not_lost_in_what_else_comes() -> None:
    more = line("ADDED", thing("c", 11)) + line("MODIFIED", thing("a", 12))
    second = Watch([*FULL[:2], line("ADDED", thing("d", 13)), bookmark(14, end=True), QUIET])
    async with mirrored(Watch([*FULL, 1.0, more, QUIET]), second) as (mirror, script):
        mirror.doubts_at = "c"
        await when(lambda: mirror.names == "abd", "the second list is not in the store", seconds=5)
        assert asked(script) == ["watchlist", "watchlist"]


@virtual_time_from(1000.0)
async def test_a_list_that_is_doubted_is_not_waited_for() -> None:
    async with mirrored(*[Watch([*FULL, QUIET])] * 2) as (mirror, script):
        mirror.doubts_at = "a"
        await mirror.reflector.synced()
        assert asked(script) == ["watchlist", "watchlist"]


@virtual_time_from(1000.0)
async def test_a_list_is_found_at_once_and_reported_in_slices() -> None:
    many = [line("ADDED", thing(f"t{n}", 3)) for n in range(300)]
    async with mirrored(Watch([b"".join(many), bookmark(10, end=True), QUIET])) as (mirror, _):
        told = [0]
        while told[-1] < len(many):
            await asyncio.sleep(0)
            assert len(mirror.store) in (0, len(many))
            told.append(len(mirror.changes))
        assert max(b - a for a, b in itertools.pairwise(told)) <= SLICE / CHANGE_WEIGHT, "too much for one turn"
        await mirror.reflector.synced()


@virtual_time_from(1000.0)
async def test_relist_amid_the_telling_of_a_list_does_not_leave_half_of_it() -> None:
    many = [line("ADDED", thing(f"t{n}", 3)) for n in range(300)]
    answers = Watch([*many, bookmark(10, end=True), QUIET]), Watch([3.0, *FULL, QUIET])
    async with mirrored(*answers) as (mirror, script):
        mirror.doubts_at = "t150"
        while not mirror.changes:  # looks in every gap that there is
            await asyncio.sleep(0)
        await when(lambda: len(mirror.changes) >= 300, "the rest is not told", every=0)
        assert (len(mirror.store), len(mirror.changes)) == (300, 300)
        await mirror.reflector.synced()
        assert asked(script) == ["watchlist", "watchlist"]
        assert mirror.names == "ab"


@virtual_time_from(1000.0)
async def test_a_stream_without_its_end_mark_is_given_up_after_30_seconds() -> None:
    answers = Watch([FULL[0], 20.0, FULL[1], QUIET]), ok(page(thing("b", 4), version=10)), Watch([QUIET])
    async with mirrored(*answers) as (mirror, script):
        began = now()
        await mirror.reflector.synced()
        assert now() - began == pytest.approx(20 + 30, abs=1)
        assert asked(script)[:2] == ["watchlist", "list 500"]
        assert mirror.names == "b"


@virtual_time_from(1000.0)
async def test_a_complete_stream_may_be_silent_for_longer_and_is_opened_again() -> None:
    async with mirrored(Watch([*FULL, QUIET]), Watch([QUIET])) as (mirror, script):
        await asyncio.sleep(120)
        assert asked(script) == ["watchlist"]
        await asyncio.sleep(120)
        assert asked(script) == ["watchlist", "watch 10"], "the second one may be silent for as long as the first"
        assert [one.state for one in mirror.connectivity] == ["reachable"]


@virtual_time_from(1000.0)
async def test_why_each_stream_ended_is_reported() -> None:
    async with mirrored(
        Watch([*FULL, 2.0]),
        Watch([2.0, bookmark(11), QUIET]),
        Watch([2.0, bookmark(12), error_line(410, "Expired")]),
        Watch([*FULL, QUIET]),
    ) as (mirror, _):
        await mirror.reflector.synced()
        assert mirror.restarts == []
        await when(lambda: len(mirror.restarts) == 3, f"the restarts are {mirror.restarts}")
        assert mirror.restarts == ["closed", "timeout", "gone"]
        assert mirror.received >= 3


@virtual_time_from(1000.0)
async def test_errors_back_off_to_30_seconds_until_a_stream_delivers() -> None:
    down: list[Answer] = [Watch(status=503)] * 8
    reset = ConnectionResetError("reset")
    async with mirrored(*down, Watch([*FULL, reset]), Watch([reset]), Watch([]), Watch([QUIET])) as (_, script):
        waits = await gaps(script, 12)
        assert waits[:8] == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]
        assert waits[8:] == [0.0, 0.8, 1.6], "a stream that has delivered is opened again at once, and the row anew"


@pytest.mark.parametrize("chance", [0.0, 1.0], ids=["least jitter", "most jitter"])
@pytest.mark.parametrize("cut", [[35.0, ConnectionResetError("cut")], [35.0]], ids=["cut off", "closed"])
@virtual_time_from(1000.0)
async def test_where_idle_connections_are_cut_there_is_nearly_always_a_stream(
    cut: list[float | OSError], chance: float
) -> None:
    streams = 40
    idle: list[Answer] = [Watch([*cut]) for _ in range(streams)]
    async with mirrored(Watch([*FULL, *cut]), *idle, Watch([QUIET]), chance=chance) as (_, script):
        await when(lambda: len(script.requests) == streams + 2, "too few requests", seconds=60.0 * streams, every=5.0)
        took = script.times[-1] - script.times[1]
        assert (took - 35.0 * streams) / took <= 0.03
        assert script.times[-1] - script.times[-2] <= 36.0, "the pauses grow"


@pytest.mark.parametrize("before", [[], [2.0]], ids=["at once", "after a while"])
@virtual_time_from(1000.0)
async def test_a_server_whose_versions_go_back_is_not_listed_all_the_time(before: list[float]) -> None:
    backwards: list[Answer] = [Watch([*FULL, *before, bookmark(9)]) for _ in range(500)]
    async with mirrored(*backwards) as (mirror, script):
        await asyncio.sleep(60)
        assert 3 <= len(script.requests) <= 8
        assert set(mirror.restarts) == {"gone"}


@virtual_time_from(1000.0)
async def test_a_list_that_is_older_than_what_is_known_is_reported_before_it_is_shown() -> None:
    older: list[bytes | float | OSError] = [line("ADDED", thing("a", 3)), bookmark(7, end=True), QUIET]
    async with mirrored(Watch([*FULL, 2.0, error_line(410, "Expired")]), Watch(older)) as (mirror, _):
        await when(lambda: len(mirror.restored) == 1, f"the restarts are {mirror.restarts}")
        await asyncio.sleep(1)
        assert mirror.restored == ["ab"]
        assert mirror.names == "a"


@virtual_time_from(1000.0)
async def test_a_busy_server_is_left_alone_for_as_long_as_it_asks() -> None:
    async with mirrored(Watch(status=429, retry_after=7.0), Watch([*FULL, QUIET])) as (_, script):
        assert await gaps(script, 2) == [7.0]
