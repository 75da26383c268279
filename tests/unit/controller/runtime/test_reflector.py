"""What a reflector takes from the stream into its store, and what its listeners hear of it."""

from __future__ import annotations

import asyncio

import pytest

from controller.kube.client import Client
from controller.kube.sender import Sender
from controller.runtime.reflector import TURN, Reflector
from controller.runtime.store import Change, Store
from tests.beds.scripted import Script, Watch, ok
from tests.beds.stores import open_store
from tests.beds.things import THINGS, Thing, bookmark, error_line, line, page, thing
from tests.beds.virtual_time import now, virtual_time_from, virtually
from tests.unit.controller.runtime.mirror import FULL, QUIET, REFUSED, asked, mirrored, when


@virtual_time_from(1000.0)
async def test_a_stream_fills_the_store_and_goes_on() -> None:
    async with mirrored(Watch([*FULL, 1.0, line("ADDED", thing("c", 11)), QUIET])) as (mirror, script):
        await mirror.reflector.synced()
        assert (mirror.names, mirror.store.reach_in("").version) == ("ab", 10)
        await when(lambda: mirror.names == "abc", "the change after the end mark is not in the store")
        assert [change.key.name for change in mirror.changes] == ["a", "b", "c"]
        assert asked(script) == ["watchlist"]
        assert script.requests[0].path == "/apis/example.com/v1/things"


@virtual_time_from(1000.0)
async def test_synced_only_after_listeners_have_heard_of_everything() -> None:
    many = [line("ADDED", thing(f"t{n}", n + 1)) for n in range(3 * TURN)]
    async with mirrored(Watch([b"".join(many), bookmark(9999, end=True), QUIET])) as (mirror, _):
        await mirror.reflector.synced()
        assert len(mirror.changes) == 3 * TURN


@virtual_time_from(1000.0)
async def test_other_tasks_get_their_turn_in_a_flood() -> None:
    flood = b"".join(line("MODIFIED", thing("a", n)) for n in range(20, 20 + 10 * TURN))
    async with mirrored(Watch([*FULL, flood, QUIET])) as (mirror, _):
        await mirror.reflector.synced()
        seen = set[int]()
        while mirror.store.reach_in("").version < 19 + 10 * TURN:
            seen.add(mirror.store.reach_in("").version)
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
    ) as (mirror, script):
        began = now()
        await when(lambda: mirror.names == "abc", "the third list is not in the store")
        assert asked(script) == ["watchlist", "list 500", "list 500 +", "watch 10", "list 500", "watch 20"]
        assert now() - began < 3
        assert [contact.state for contact in mirror.contacts] == ["reachable"]


@virtual_time_from(1000.0)
async def test_a_malformed_object_is_told_and_the_others_go_on() -> None:
    bad = line("MODIFIED", thing("a", 11, size="big"))
    async with mirrored(Watch([*FULL, bad, line("ADDED", thing("c", 12)), QUIET])) as (mirror, _):
        await when(lambda: mirror.names == "abc", "the object after the malformed one is not in the store")
        assert mirror.malformed == ["a"]
        found = mirror.store.get(next(iter(mirror.store.malformed)))
        assert found is not None
        assert found.version == "3", "the last good state is gone"


@virtual_time_from(1000.0)
async def test_garbage_ends_a_stream_which_resumes_at_the_last_good_version() -> None:
    async with mirrored(Watch([*FULL, b'{"type":"ADD\n']), Watch([line("ADDED", thing("c", 12)), QUIET])) as (
        mirror,
        script,
    ):
        await when(lambda: mirror.names == "abc", "the second stream's object is not in the store")
        assert asked(script) == ["watchlist", "watch 10"]


def test_a_listener_that_fails_ends_the_reflector_loudly() -> None:
    async def main() -> None:
        writer, _ = open_store(Thing)

        def fail(change: Change[Thing]) -> None:
            raise ZeroDivisionError

        await Reflector(Client(Sender(Script(Watch([*FULL, QUIET])))), THINGS, writer, on_change=fail).run()

    with pytest.raises(ZeroDivisionError):
        virtually(main())


@virtual_time_from(1000.0)
async def test_a_listener_finds_store_and_index_as_the_change_says() -> None:
    writer, store = open_store(Thing)
    by_color = store.index(lambda thing: thing.color or None)
    looked: list[bool] = []

    def look(change: Change[Thing]) -> None:
        looked.append(_agrees(store, change) and (change.key in by_color.get("red")) == (change.new is not None))

    steps: list[bytes | float | OSError] = [
        bookmark(5, end=True),
        line("ADDED", thing("a", 6, color="red")),
        line("MODIFIED", thing("a", 7, color="red", size=3)),
        line("DELETED", thing("a", 8, color="red")),
        QUIET,
    ]
    reflector = Reflector(Client(Sender(Script(Watch(steps)))), THINGS, writer, on_change=look)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(reflector.run())
        await when(lambda: len(looked) == 3, "too few changes")
        running.cancel()
    assert looked == [True, True, True]


def _agrees(store: Store[Thing], change: Change[Thing]) -> bool:
    return store.get(change.key) is change.new


@virtual_time_from(1000.0)
async def test_one_namespace_is_asked_for_by_its_path() -> None:
    script = Script(REFUSED, ok(page(version=10)), Watch([QUIET]))
    writer, _ = open_store(Thing)
    reflector = Reflector(Client(Sender(script)), THINGS, writer, namespace="infra")
    async with asyncio.TaskGroup() as group:
        running = group.create_task(reflector.run())
        await when(lambda: len(script.requests) == 3, "too few requests")
        running.cancel()
    for request in script.requests:
        assert request.path == "/apis/example.com/v1/namespaces/infra/things"
