"""Follows the API server as any client may, and remembers what the story has to prove."""

from __future__ import annotations

import asyncio
from collections import defaultdict
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
        """The most wanted nodes without an available pod at one time."""
        self.most_zones = 0
        """The most zones with such nodes at one time."""
        self.taken: defaultdict[str, dict[str, float]] = defaultdict(dict)
        """Revision to the nodes that ever had a pod of it, in order, and when that was first seen."""
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

    def forget(self) -> None:
        """Count the most anew."""
        self.worst = self.most_zones = 0

    @property
    def counts(self) -> Counts:
        return picture.counts(self._daemonset)

    @property
    def zones(self) -> tuple[Zone, ...]:
        return picture.zones(self._nodes.objects.values(), self.cells)

    @property
    def images(self) -> tuple[tuple[str, str], ...]:
        """Letter and image of each revision that a pod has."""
        running = {cell.revision for cell in self.cells.values()}
        return tuple((letter, image) for letter, image in self._images.items() if letter in running)

    @property
    def phase(self) -> str:
        """The phase that the status has; empty without one, or where the controller has not seen the newest spec."""
        found = self._daemonset or {}
        seen = found and (found.get("status") or {}).get("observedGeneration") == found["metadata"]["generation"]
        return str(self._rollout.get("phase", "")) if seen else ""

    @property
    def stable(self) -> str:
        """The letter of the revision that can be gone back to."""
        return self._letters.get(self._rollout.get("stableRevision", ""), "")

    def on(self, revision: str) -> int:
        """How many nodes have an available pod of that revision."""
        return sum(cell.state is State.READY and cell.revision == revision for cell in self.cells.values())

    def bare(self) -> int:
        """How many wanted nodes have no available pod."""
        return sum(map(_is_bare, self.cells.values()))

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

    @property
    def _rollout(self) -> Object:
        found: Object = ((self._daemonset or {}).get("status") or {}).get("rollout") or {}
        return found

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
            if cell.revision:
                self.taken[cell.revision].setdefault(name, self._journal.now)
        self.worst = max(self.worst, self.bare())
        self.most_zones = max(self.most_zones, sum(any(map(_is_bare, zone.cells)) for zone in self.zones))
        self._news.set()

    def _report(self, old: Cell, new: Cell) -> None:
        now = self._journal.now
        if old.state is State.READY and new.state is not State.READY:
            self._bare_since[new.node] = now
        if new.state is State.READY:
            bare = self._bare_since.pop(new.node, None)
            gap = "" if bare is None else f", unavailable for {now - bare:.1f} s"
            self._journal.tell(NODE, f"{new.node}  {new.revision} ready{gap}")
        elif new.state is State.OUT:
            self._bare_since.pop(new.node, None)
        elif new.state is State.FAILING:
            self._journal.tell(NODE, f"{new.node}  {new.state}")

    def _standing(self) -> str:
        others = [cell for cell in self.cells.values() if cell.state is not State.READY]
        listed = ", ".join(f"{cell.node} {cell.revision} {cell.state}".replace("  ", " ") for cell in others[:8])
        more = f" and {len(others) - 8} more" if len(others) > 8 else ""
        ready = len(self.cells) - len(others)
        return f"{ready} of {len(self.cells)} nodes have an available pod; not: {listed or 'none'}{more}"


def _is_bare(cell: Cell) -> bool:
    return cell.state not in (State.READY, State.OUT, State.IDLE)
