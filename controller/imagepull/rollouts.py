"""Makes the ImagePullJobs that the rollout of a DaemonSet wants, and removes those that it wants no more.

Beside the rollout and never in its way: what fails here is told, tried again, and waited for by nobody.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.api.daemonset import DaemonSet
from controller.api.image_pull_job import ImagePullJob
from controller.api.meta import Key
from controller.api.wellknown import CREATED_IMAGE_PULL_JOB, FAILED_CREATE_IMAGE_PULL_JOB
from controller.daemonset.caches import Caches
from controller.imagepull.wanted import Wanted, WantedJob, body, notes_on, wanted
from controller.kube.client import Client
from controller.kube.errors import AlreadyExists, ApiError, NotFound
from controller.kube.kinds import IMAGE_PULL_JOBS
from controller.planner.actions import Note
from controller.runtime.store import Store
from controller.runtime.workers import Done, Outcome, Retry, Turn
from controller.runtime.workqueue import Taken


class Rollouts:
    """Handles the keys of DaemonSets."""

    def __init__(
        self, client: Client, caches: Caches, jobs: Store[ImagePullJob], say: Callable[[DaemonSet, Note], None]
    ) -> None:
        self._client, self._caches, self._jobs, self._say = client, caches, jobs, say
        self._by_owner = jobs.index(lambda job: job.owner_uid or None)
        self._made: dict[str, tuple[str, set[str]]] = {}
        """By the DaemonSet's uid: a revision's uid, and the images that jobs were made for. A job that has done its
        work goes in its time, and is not made again as long as that revision is the current one."""

    async def __call__(self, taken: Taken[Key], turn: Turn) -> Outcome:
        daemonset = self._caches.daemonsets.get(taken.key)
        if daemonset is None or daemonset.dying:
            return Done()  # its jobs go with it, as dependents
        asked = wanted(daemonset, self._caches.revisions_of(daemonset), self._caches.pods_of(daemonset))
        if asked is None:
            return Done()
        uid, revision = daemonset.uid, asked.revision
        if self._made.get(uid, ("", ()))[0] != revision.uid:
            self._made[uid] = (revision.uid, set())
        there = list(self._by_owner.get(uid).values())
        turn.only_waits()
        client = self._client.apart()
        try:
            for job in there:
                if not job.dying and (not asked.jobs or job.hash != revision.hash):
                    await self._remove(client, job)
            if asked.jobs and not asked.waits:
                await self._make(client, daemonset, asked, {job.name for job in there})
        except ApiError as error:
            return Retry(error, error.retry_after or 0.0)
        return Done()

    def forget(self, uid: str) -> None:
        """The DaemonSet is gone."""
        self._made.pop(uid, None)

    async def _make(self, client: Client, daemonset: DaemonSet, asked: Wanted, there: set[str]) -> None:
        made = self._made[daemonset.uid][1]
        missing = [job for job in asked.jobs if job.name not in there and job.image not in made]
        if missing:
            for note in notes_on(daemonset):
                self._say(daemonset, note)
        for job in missing:
            await self._create(client, daemonset, asked, job)
            made.add(job.image)

    async def _create(self, client: Client, daemonset: DaemonSet, asked: Wanted, job: WantedJob) -> None:
        try:
            document = body(daemonset, asked.revision, job)
            await client.create(IMAGE_PULL_JOBS, daemonset.namespace, document, name=job.name)
        except AlreadyExists:
            known = self._jobs.get(Key(daemonset.namespace, job.name))
            if known is not None and known.owner_uid != daemonset.uid:
                self._warn(daemonset, f"{job.name} is there and belongs to somebody else")
        except ApiError as error:
            if not error.is_terminating_namespace:
                self._warn(daemonset, error.message)
            raise
        else:
            words = f"Created ImagePullJob {job.name} for image {job.image}"
            self._say(daemonset, Note(warning=False, reason=CREATED_IMAGE_PULL_JOB, message=words))

    def _warn(self, daemonset: DaemonSet, words: str) -> None:
        message = f"Error creating ImagePullJob: {words}"
        self._say(daemonset, Note(warning=True, reason=FAILED_CREATE_IMAGE_PULL_JOB, message=message))

    async def _remove(self, client: Client, job: ImagePullJob) -> None:
        try:
            await client.delete(IMAGE_PULL_JOBS, job.ref, propagation="Background")
        except NotFound:
            return
