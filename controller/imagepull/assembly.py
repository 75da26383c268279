"""All that carries out ImagePullJobs, introduced to each other; it runs inside the scopes of `app`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from math import inf
from typing import Protocol

from controller.api.daemonset import DaemonSet
from controller.api.image_pull_job import ImagePullJob
from controller.api.meta import Key
from controller.api.puller import Puller
from controller.api.revision import Revision
from controller.api.selector import LabelSelector
from controller.daemonset.caches import Caches as DaemonSetCaches
from controller.imagepull.caches import JobCaches
from controller.imagepull.reconcile import JobReconciler, JobWatchers
from controller.imagepull.rollouts import Rollouts
from controller.imagepull.triggers import JobTriggers
from controller.imagepull.wanted import old_pods
from controller.kube.client import Client
from controller.planner.actions import Note
from controller.planner.world import BeingPulled, Unpulled
from controller.runtime.clock import Clock, elapsed
from controller.runtime.pacing import Pacer, Urgency
from controller.runtime.store import Change, open_scoped_store
from controller.runtime.workers import Handle, Outcome, Pass, PassControl, workers
from controller.runtime.workqueue import Taken, WorkQueue

WORKERS = 1
"""A pass that waits for answers is in nobody's way, and deciding takes a millisecond."""
STARTING_SECONDS = 10.0
"""For which rollouts that depend on it wait for the caches: who has just begun to lead does not know which images are
where."""
SETTLES_SECONDS = 0.2
"""After a change of a DaemonSet, of which several come together."""
DRAIN_SECONDS = 0.5
"""Names and owners make it safe to leave a write unanswered."""


class Passes(Protocol):
    """What is told of the passes over the keys of a queue."""

    async def in_context(self, handle: Handle[Key], taken: Taken[Key], turn: PassControl) -> Outcome:
        """Makes one."""

    def did(self, key: Key, what: str) -> None:
        """It has written something."""

    def passed(self, done: Pass[Key]) -> None:
        """One is over."""


class ImagePullParts:
    """Stores, queue and triggers exist at once; who fills the caches tells the triggers."""

    def __init__(
        self,
        client: Client,
        namespaces: Sequence[str],
        daemonsets: DaemonSetCaches,
        clock: Clock,
        watchers: JobWatchers,
        *,
        say: Callable[[DaemonSet, Note], None],
        wake: Callable[[DaemonSet], None],
        job_gone: Callable[[str], None],
        job_passes: Passes,
        image_passes: Passes,
    ) -> None:
        self.jobs = open_scoped_store(ImagePullJob, namespaces)
        self.pullers = open_scoped_store(Puller, namespaces)
        self.caches = JobCaches(self.jobs[1], self.pullers[1], daemonsets.nodes)
        self._daemonsets = daemonsets
        self.queue: WorkQueue[Key] = WorkQueue()
        self.rollouts: WorkQueue[Key] = WorkQueue()
        """Keys of DaemonSets."""
        self._pacer: Pacer[Key] = Pacer()
        self._handle = JobReconciler(
            client, self.caches, clock, self._pacer, watchers, self._wake_owner, self._old_pods, self._updated
        )
        self._wake, self._job_gone, self._until = wake, job_gone, inf
        self._rollouts = Rollouts(client, daemonsets, self.jobs[1], say, wake, self._handle.lacking, image_passes.did)
        self._job_passes, self._image_passes, self._began = job_passes, image_passes, False
        self.triggers = JobTriggers(
            self.caches, self._enqueue, job_changed=self._job_changed, node_gone=self._handle.node_gone
        )

    @asynccontextmanager
    async def working(self, caught_up: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
        """Carry out jobs while the block runs, from when the caches are `caught_up`: that may be never, where the
        kind is not installed or may not be read, and nobody waits for it.
        """
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        self._until = loop.time() + STARTING_SECONDS
        timer = loop.call_later(STARTING_SECONDS, self._wake_waiting)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._work(caught_up, stop), name="image-pulls")
            yield
            timer.cancel()
            stop.set()
            if not self._began:
                task.cancel()

    async def _work(self, caught_up: Callable[[], Awaitable[None]], stop: asyncio.Event) -> None:
        await caught_up()
        self._began = True
        self._wake_waiting()
        for job in self.caches.jobs.values():
            self.queue.add(job.key, "start")
        for puller in self.caches.pullers.values():
            self.queue.add(Key(puller.namespace, puller.job), "start")
        for daemonset in self._daemonsets.daemonsets.values():
            self.rollouts.add(daemonset.key, "start")
        async with (
            _working(self.queue, self._handle, self._job_passes),
            _working(self.rollouts, self._rollouts, self._image_passes),
        ):
            await stop.wait()

    def unpulled(self, daemonset: DaemonSet) -> Mapping[str, Unpulled]:
        """The nodes that are to wait for images, as in the planner's world: all while nobody can tell yet, none
        where no jobs are carried out."""
        if not daemonset.waits_for_images:
            return {}
        if self._began:
            return self._rollouts.unpulled(daemonset)
        if elapsed() >= self._until:
            return {}
        return {pod.node: BeingPulled() for pod in self._daemonsets.pods_of(daemonset)}

    def _old_pods(self, job: ImagePullJob) -> frozenset[str] | None:
        daemonset = self._daemonsets.daemonset_of(job.owner_uid)
        if daemonset is None or not job.hash:
            return None
        return frozenset(old_pods(self._daemonsets.pods_of(daemonset), job.hash))

    def _updated(self, job: ImagePullJob) -> LabelSelector | None:
        daemonset = self._daemonsets.daemonset_of(job.owner_uid)
        rolling = daemonset.rolling_update if daemonset is not None else None
        return rolling.selector if rolling is not None else None

    def _wake_waiting(self) -> None:
        for daemonset in self._daemonsets.daemonsets.values():
            if daemonset.waits_for_images:
                self._wake(daemonset)

    def _wake_owner(self, job: ImagePullJob) -> None:
        daemonset = self._daemonsets.daemonset_of(job.owner_uid)
        if daemonset is not None and daemonset.waits_for_images:
            self._wake(daemonset)

    def _job_changed(self, change: Change[ImagePullJob]) -> None:
        old, new = change.old, change.new
        if old is not None and new is None:
            self._job_gone(old.uid)
            self._rollouts.gone(old)
        if new is not None:
            self._rollouts.saw(new)
        if (job := new or old) is not None and (old is None or new is None or old.status != new.status):
            self._wake_owner(job)

    def on_daemonset(self, change: Change[DaemonSet]) -> None:
        if change.old is not None and change.new is None:
            self._rollouts.forget(change.old.uid)
        self.rollouts.add_after(change.key, SETTLES_SECONDS, "daemonset changed")

    def on_revision(self, change: Change[Revision]) -> None:
        revision = change.new or change.old
        owner = self._daemonsets.daemonset_of(revision.owner_uid) if revision is not None else None
        if owner is not None:
            self.rollouts.add_after(owner.key, SETTLES_SECONDS, "revision changed")

    def _enqueue(self, key: Key, urgency: Urgency, reason: str) -> None:
        self.queue.add_after(key, self._pacer.delay(key, urgency, asyncio.get_running_loop().time()), reason)


def _working(queue: WorkQueue[Key], handle: Handle[Key], passes: Passes) -> AbstractAsyncContextManager[None]:
    told = partial(passes.in_context, handle)
    return workers(WORKERS, queue, told, on_outcome=passes.passed, drain=DRAIN_SECONDS, name="puller")
