"""A reflector against a scripted server: what it was asked for, what it said, and what its store holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from msgspec.structs import replace

from controller.kube.client import Client
from controller.kube.sender import Sender
from controller.runtime.contact import Contact
from controller.runtime.reflector import Reflector
from controller.runtime.store import Change
from tests.beds.scripted import Answer, Script, Watch
from tests.beds.stores import open_store
from tests.beds.things import THINGS, Thing, ThingView, bookmark, line, status, thing

FULL = [line("ADDED", thing("a", 3)), line("ADDED", thing("b", 4)), bookmark(10, end=True)]
REFUSED = Watch([status(422, "Invalid")], status=422)
QUIET: float = 1000.0
"""Seconds of silence: longer than a test looks, shorter than none."""


class Mirror:
    """A reflector under test, its store, and everything that it said."""

    def __init__(self, script: Script, chance: float = 0.0, *, custom: bool = False) -> None:
        writer, self.store = open_store(Thing)
        self.changes: list[Change[Thing]] = []
        self.contacts: list[Contact] = []
        self.malformed: list[str] = []
        self.restarts: list[str] = []
        self.heard = 0
        self.doubts_at = ""
        """The name whose change makes a listener ask for a list."""
        self.reflector = Reflector[ThingView, Thing](
            Client(Sender(script)),
            replace(THINGS, custom=custom),
            writer,
            on_change=self._changed,
            on_contact=self.contacts.append,
            on_heard=self._hears,
            on_restart=self.restarts.append,
            on_malformed=lambda bad: self.malformed.append(bad.key.name),
            chance=lambda: chance,
        )

    def _hears(self) -> None:
        self.heard += 1

    def _changed(self, change: Change[Thing]) -> None:
        self.changes.append(change)
        if change.new and change.key.name == self.doubts_at:
            self.reflector.relist()

    @property
    def names(self) -> str:
        return "".join(sorted(key.name for key, _ in self.store.items()))


@asynccontextmanager
async def mirrored(
    *answers: Answer, chance: float = 0.0, custom: bool = False
) -> AsyncIterator[tuple[Mirror, Script]]:
    """A reflector that runs on this script. `chance` 0 is no jitter, 1 the most."""
    script = Script(*answers)
    mirror = Mirror(script, chance, custom=custom)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(mirror.reflector.run())
        try:
            yield mirror, script
        finally:
            running.cancel()


async def when(condition: Callable[[], bool], what: str, seconds: float = 300.0, every: float = 0.05) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(every)
    assert condition(), what


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
