"""Makes and runs the parts that carry out ImagePullJobs, and queues keys for changes in caches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from math import inf

from controller.api.daemonset import DaemonSet
from controller.api.image_pull_job import ImagePullJob, Puller
from controller.api.node import Node
from controller.api.objects import Key
from controller.api.revision import Revision
from controller.imagepull.job_reconcile import JobReconciler
from controller.imagepull.rollouts import RolloutJobs
from controller.observe.instrumentation import Instrumentation, PassLog
from controller.observe.metrics import Metrics
from controller.planner.world import BeingPulled, Unpulled
from controller.reconcile.caches import Cached, Caches
from controller.reconcile.dependencies import Dependencies
from controller.reconcile.reconcile import ImagePulls
from controller.reconcile.state import DaemonSetStates
from controller.runtime.clock import elapsed
from controller.runtime.pacing import PacedQueue
from controller.runtime.store import Change
from controller.runtime.workers import Handle, workers
from controller.runtime.workqueue import WorkQueue

WORKERS = 1
"""Per queue: deciding takes a millisecond, and any number of passes may wait for answers."""
STARTUP_SECONDS = 10.0
"""Seconds that rollouts wait for these caches: a new leader does not know where images are."""
BATCH_SECONDS = 0.2
"""Seconds from a DaemonSet change to the pass over its jobs, because changes come in groups."""
PULLS_DRAIN_SECONDS = 0.5
"""Seconds for running passes at shutdown. Names and owners make unanswered writes safe."""


class ImagePullParts(ImagePulls):
    """Stores, queues and reconcilers, which run inside `working`; informers call the `on_…` methods."""

    def __init__(
        self,
        dependencies: Dependencies,
        caches: Caches,
        metrics: Metrics,
        instrumentation: Instrumentation,
        *,
        states: DaemonSetStates,
        queue: PacedQueue[Key],
    ) -> None:
        """`states` and `queue` are those of the DaemonSets."""
        self.queue = PacedQueue[Key]()
        self.rollout_queue: WorkQueue[Key] = WorkQueue()
        self._caches, self._instrumentation, self._daemonset_queue = caches, instrumentation, queue
        self._caught_up = False
        self._waits_until = inf
        """The end of `STARTUP_SECONDS` (`elapsed`), after which rollouts do not wait for lagging caches."""
        count_pulls = metrics.count_image_pulls(lambda: len(caches.unfinished_jobs()), lambda: len(caches.pullers))
        pacer = self.queue.pacer
        self._reconciler = JobReconciler(dependencies, caches, pacer, count_pulls=count_pulls, daemonset_queue=queue)
        self._rollouts = RolloutJobs(dependencies, caches, self._reconciler, states=states, daemonset_queue=queue)

    @asynccontextmanager
    async def working(self, caught_up: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
        """Carries out jobs inside the block once `caught_up`; never if the kind is missing or not readable."""
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        self._waits_until = loop.time() + STARTUP_SECONDS
        timer = loop.call_later(STARTUP_SECONDS, self._wake_waiting)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._work(caught_up, stop), name="image-pulls")
            try:
                yield
            finally:
                timer.cancel()
            stop.set()
            if not self._caught_up:
                task.cancel()

    async def _work(self, caught_up: Callable[[], Awaitable[None]], stop: asyncio.Event) -> None:
        await caught_up()
        self._caught_up = True
        self._wake_waiting()
        for job in self._caches.jobs.values():
            self.queue.add(job.key, "start")
        for puller in self._caches.pullers.values():
            self.queue.add(Key(puller.namespace, puller.job), "start")
        for daemonset in self._caches.daemonsets.values():
            self.rollout_queue.add(daemonset.key, "start")
        async with (
            _working(self.queue, self._reconciler, self._instrumentation.job_passes),
            _working(self.rollout_queue, self._rollouts, self._instrumentation.image_passes),
        ):
            await stop.wait()

    def unpulled(self, daemonset: DaemonSet, cached: Cached) -> Mapping[str, Unpulled]:
        """The nodes that wait for images, as in `World`: all while unknown, none if there are no jobs."""
        if not daemonset.waits_for_images:
            return {}
        if self._caught_up:
            return self._rollouts.unpulled(daemonset, cached)
        if elapsed() >= self._waits_until:
            return {}
        return {pod.node: BeingPulled() for pod in cached.pods}

    def mutated_images(self, daemonset: DaemonSet) -> frozenset[str]:
        return self._rollouts.mutated_images(daemonset)

    def _wake_waiting(self) -> None:
        for daemonset in self._caches.daemonsets.values():
            if daemonset.waits_for_images:
                self._daemonset_queue.enqueue(daemonset.key, "soon", "images")

    def on_job(self, change: Change[ImagePullJob]) -> None:
        old, new = change.old, change.new
        if old is not None and new is None:
            self._instrumentation.job_gone(old.uid)
            self._rollouts.job_gone(old)
        if new is not None:
            self._rollouts.job_seen(new)
        if (job := new or old) is not None and (old is None or new is None or old.status != new.status):
            self._reconciler.wake_owner(job)
        same_spec = (
            old is not None
            and new is not None
            and (old.generation, old.terminating) == (new.generation, new.terminating)
        )
        self.queue.enqueue(change.key, "lazy" if same_spec else "urgent", "job changed")

    def on_puller(self, change: Change[Puller]) -> None:
        for job in {puller.job for puller in (change.old, change.new) if puller is not None}:
            self.queue.enqueue(Key(change.key.namespace, job), "soon", f"puller {change.key.name} changed")

    def on_node(self, change: Change[Node]) -> None:
        old, new = change.old, change.new
        if old is not None and new is not None and old.same_placement(new):
            return
        if new is None:
            self._reconciler.node_gone(change.key.name)
        for job in self._caches.unfinished_jobs():
            self.queue.enqueue(job.key, "lazy", f"node {change.key.name} changed")

    def on_daemonset(self, change: Change[DaemonSet]) -> None:
        if change.old is not None and change.new is None:
            self._rollouts.forget(change.old.uid)
        self.rollout_queue.add_after(change.key, BATCH_SECONDS, "daemonset changed")

    def on_revision(self, change: Change[Revision]) -> None:
        revision = change.new or change.old
        owner = self._caches.daemonset_of(revision) if revision is not None else None
        if owner is not None:
            self.rollout_queue.add_after(owner.key, BATCH_SECONDS, "revision changed")

    def on_server_back(self) -> None:
        self._reconciler.server_back()
        for job in self._caches.jobs.values():
            self.queue.enqueue(job.key, "urgent", "server back")


def _working(queue: WorkQueue[Key], handle: Handle[Key], passes: PassLog) -> AbstractAsyncContextManager[object]:
    return workers(WORKERS, queue, handle, around=passes.about, drain=PULLS_DRAIN_SECONDS, name="job-worker")
