"""Passes over one DaemonSet as the caches have it, and what they asked the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager

from msgspec.structs import replace

from controller.api.daemonset import DaemonSet
from controller.api.objects import Key
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.kube.decode import Bookmark, Seen
from controller.reconcile.check_evaluation import Checks
from controller.reconcile.dependencies import Observer
from controller.reconcile.reconcile import ImagePulls, Reconciler
from controller.reconcile.state import DaemonSetStates
from controller.runtime.clock import elapsed
from controller.runtime.pacing import PacedQueue, Pacer
from controller.runtime.watch import Init
from controller.runtime.workers import SILENCE_SECONDS, Outcome
from controller.runtime.workqueue import WorkItem
from tests.beds.dependencies import Acting, refusal
from tests.beds.scripted import Answer, ok
from tests.beds.stores import caches_of
from tests.beds.virtual_time import now
from tests.beds.worlds import NOW, OURS, ds, node, revision

CONFLICT = refusal(409, "Conflict")
STATUS = "PATCH status"


class Passes:
    """One DaemonSet as the caches have it. `now` of its hands follows the loop's time."""

    def __init__(
        self,
        daemonset: DaemonSet | None = None,
        *,
        nodes: int = 1,
        pods: Iterable[Pod] = (),
        revisions: Iterable[Revision] = (revision("v1"),),
        image_pulls: ImagePulls | None = None,
    ) -> None:
        self.daemonset = daemonset or ds()
        listed = [node(f"node-{number}") for number in range(nodes)]
        self.caches = caches_of([self.daemonset], nodes=listed, revisions=revisions)
        self._pods = self.caches.pods.writers[""]
        self.pods_are(pods)
        self.acting = Acting(daemonset=self.daemonset)
        self.states, self.pacer = DaemonSetStates(), Pacer[Key]()
        state = self.states.of(OURS)
        state.generation = self.daemonset.generation
        for stored in revisions:
            state.verdicts.learn(stored.hash, None, elapsed())
        self.woken: list[str] = []
        self.statuses, self.told = self.acting.statuses, self.acting.told
        self.reconciler = Reconciler(
            dependencies=replace(self.acting.dependencies, clock=lambda: NOW + now()),
            caches=self.caches,
            states=self.states,
            pacer=self.pacer,
            image_pulls=image_pulls or ImagePulls(),
            checks=Checks(None, self.caches, PacedQueue[Key](), Observer()),
        )

    def is_gone(self) -> None:
        self.caches.daemonsets.writers[""].apply(Seen(key=self.daemonset.key, version="99", obj=None))

    def pods_are(self, pods: Iterable[Pod], *, version: int = 1) -> None:
        for _ in self.pods_become(pods, version=version):
            pass

    def pods_become(self, pods: Iterable[Pod], *, version: int) -> Iterator[object]:
        """The list is complete; it is taken in while you walk through it."""
        self._pods.apply(Init())
        for one in pods:
            self._pods.apply(Seen(key=one.key, version=str(version), obj=replace(one, version=str(version))))
        return self._pods.replace(str(version))

    def pods_seen_until(self, version: int) -> None:
        self._pods.apply(Bookmark(version=str(version)))

    async def __call__(self, *answers: Answer) -> Outcome:
        script = self.acting.script
        script.answers[:] = answers
        script.requests.clear()
        outcome = await self.once()
        assert not script.answers, f"nobody asked for {script.answers}"
        return outcome

    async def freely(self) -> Outcome:
        """Whatever is asked goes through."""
        script = self.acting.script
        script.answers[:] = [ok()] * 9
        script.requests.clear()
        return await self.once()

    async def once(self) -> Outcome:
        taken = WorkItem(key=self.daemonset.key, reasons=(), queued_seconds=0.0)
        return await self.reconciler(taken, self.woken.append)

    @asynccontextmanager
    async def slow(self, *answers: Answer) -> AsyncIterator[asyncio.Task[Outcome]]:
        """A pass that the server keeps waiting until its key is requeued; it has ended when the block is left."""
        self.acting.script.answers[:] = answers
        self.acting.script.requests.clear()
        async with asyncio.TaskGroup() as group:
            passing = group.create_task(self.once())
            await asyncio.sleep(SILENCE_SECONDS + 0.1)
            assert self.woken == ["not answered yet"]
            yield passing

    @property
    def asked(self) -> list[str]:
        return self.acting.asked

    @property
    def said(self) -> list[str]:
        return [note.reason for note in self.acting.notes]
