"""Follows the API server as any client may, and remembers what the story has to prove."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from string import ascii_uppercase

from tests.beds import objects
from tests.beds.api import DAEMONSETS, NODES, PODS, Api, Object
from tests.beds.nodes.mirror import Mirror
from tests.tools.demo import picture
from tests.tools.demo.journal import NODE, Journal
from tests.tools.demo.picture import Cell, Counts, State, Zone


class Overdue(Exception):
    """Something did not happen in time; the message says what, and how things stand."""


class Witness:
    """Sees every state of every pod, in the server's order, so no gap is too short for it."""

    def __init__(self, api: Api, journal: Journal, name: str) -> None:
        self.cells: dict[str, Cell] = {}
        self.worst = 0
        """The most wanted nodes without an available pod at one time; set it back to 0 at will."""
        self.pods_created = 0
        self.born: dict[str, float] = {}
        """When the newest pod of each node was first seen, in seconds of the journal."""
        self.gone: dict[str, float] = {}
        """When the last pod of each node was seen to be gone."""
        self._journal, self._name = journal, name
        self._letters: dict[str, str] = {}
        self._images: dict[str, str] = {}
        self._bare_since: dict[str, float] = {}
        self._known: set[str] = set()
        self._news = asyncio.Event()
        self._nodes = Mirror(api, NODES, seen=self._look, lost=self._look)
        self._daemonsets = Mirror(api, DAEMONSETS, seen=self._look, lost=self._look)
        self._pods = Mirror(api, PODS, seen=self._pod_seen, lost=self._pod_lost)

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Watch while the block runs; what is there already has been seen when it begins."""
        mirrors = (self._nodes, self._daemonsets, self._pods)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(mirror.run()) for mirror in mirrors]
            for mirror in mirrors:
                await mirror.synced.wait()
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    @property
    def counts(self) -> Counts:
        return picture.counts(self._daemonset)

    @property
    def zones(self) -> tuple[Zone, ...]:
        return picture.zones(self._nodes.objects.values(), self.cells)

    @property
    def images(self) -> tuple[tuple[str, str], ...]:
        return tuple(self._images.items())

    def on(self, revision: str) -> int:
        """How many nodes have an available pod of that revision."""
        return sum(cell.state is State.READY and cell.revision == revision for cell in self.cells.values())

    def bare(self) -> int:
        """How many wanted nodes have no available pod."""
        return sum(cell.state not in (State.READY, State.OUT, State.IDLE) for cell in self.cells.values())

    async def until(self, holds: Callable[[], bool], what: str, seconds: float) -> None:
        """Wait for something to be seen. Raises Overdue."""
        try:
            async with asyncio.timeout(seconds):
                while not holds():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise Overdue(f"not within {seconds:g} s: {what}. {self._standing()}") from None

    @property
    def _daemonset(self) -> Object | None:
        found = self._daemonsets.objects.values()
        return next((item for item in found if item["metadata"]["name"] == self._name), None)

    def _own_pods(self) -> list[Object]:
        return [pod for pod in self._pods.objects.values() if picture.revision_of(pod)]

    def _pod_seen(self, pod: Object) -> None:
        uid, revision = pod["metadata"]["uid"], picture.revision_of(pod)
        if not revision:
            return
        if revision not in self._letters:
            self._letters[revision] = ascii_uppercase[len(self._letters) % len(ascii_uppercase)]
            self._images[self._letters[revision]] = pod["spec"]["containers"][0]["image"]
        if uid not in self._known:
            self._known.add(uid)
            self.pods_created += 1
            self.born[objects.node_of(pod)] = self._journal.now
        self._look(pod)

    def _pod_lost(self, pod: Object) -> None:
        self.gone[objects.node_of(pod)] = self._journal.now
        self._look(pod)

    def _look(self, _: Object) -> None:
        before = self.cells
        self.cells = picture.cells(self._nodes.objects.values(), self._own_pods(), self._daemonset, self._letters)
        for name, cell in self.cells.items():
            if (old := before.get(name)) is not None and old != cell:
                self._report(old, cell)
        self.worst = max(self.worst, self.bare())
        self._news.set()

    def _report(self, old: Cell, new: Cell) -> None:
        now = self._journal.now
        if old.state is State.READY and new.state is not State.READY:
            self._bare_since[new.node] = now
        if new.state is State.READY:
            bare = self._bare_since.pop(new.node, None)
            gap = "" if bare is None else f", unavailable for {now - bare:.1f} s"
            self._journal.tell(NODE, f"{new.node}  {new.revision} ready{gap}")
        elif new.state is State.FAILING:
            self._journal.tell(NODE, f"{new.node}  {new.state}")

    def _standing(self) -> str:
        others = [cell for cell in self.cells.values() if cell.state is not State.READY]
        listed = ", ".join(f"{cell.node} {cell.revision} {cell.state}".replace("  ", " ") for cell in others[:8])
        more = f" and {len(others) - 8} more" if len(others) > 8 else ""
        ready = len(self.cells) - len(others)
        return f"{ready} of {len(self.cells)} nodes have an available pod; not: {listed or 'none'}{more}"
