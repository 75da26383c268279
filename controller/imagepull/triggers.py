"""From a change in a store to the jobs that have to be looked at."""

from __future__ import annotations

from collections.abc import Callable

from controller.api.image_pull_job import ImagePullJob
from controller.api.meta import Key
from controller.api.node import Node
from controller.api.puller import Puller
from controller.imagepull.caches import JobCaches
from controller.runtime.pacing import Urgency
from controller.runtime.store import Change


class JobTriggers:
    def __init__(
        self,
        caches: JobCaches,
        enqueue: Callable[[Key, Urgency, str], None],
        *,
        job_changed: Callable[[Change[ImagePullJob]], None],
        node_gone: Callable[[str], None],
    ) -> None:
        """`node_gone` is told a name."""
        self._caches, self._enqueue, self._job_changed, self._node_gone = caches, enqueue, job_changed, node_gone

    def on_job(self, change: Change[ImagePullJob]) -> None:
        old, new = change.old, change.new
        self._job_changed(change)
        same_wish = old is not None and new is not None and (old.generation, old.dying) == (new.generation, new.dying)
        self._enqueue(change.key, "lazy" if same_wish else "urgent", "job changed")

    def on_puller(self, change: Change[Puller]) -> None:
        for job in {puller.job for puller in (change.old, change.new) if puller is not None}:
            self._enqueue(Key(change.key.namespace, job), "soon", f"puller {change.key.name} changed")

    def on_node(self, change: Change[Node]) -> None:
        old, new = change.old, change.new
        if old is not None and new is not None and old.same_placement(new):
            return
        self._caches.fleet += 1
        if new is None:
            self._node_gone(change.key.name)
        for job in self._caches.jobs.values():
            if job.status is None or job.status.completion_time is None:
                self._enqueue(job.key, "lazy", f"node {change.key.name} changed")

    def on_server_back(self) -> None:
        for job in self._caches.jobs.values():
            self._enqueue(job.key, "urgent", "server back")
