"""Creates the ImagePullJobs that the rollout of a DaemonSet wants, deletes those that it does not want any more, and
knows which nodes wait for them.

It runs beside the rollout: a failure here is reported and retried, and the rollout does not wait for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping

import msgspec

from controller.api.daemonset import DaemonSet
from controller.api.image_pull_job import ImagePullJob
from controller.api.meta import Key
from controller.api.wellknown import CREATED_IMAGE_PULL_JOB, FAILED_CREATE_IMAGE_PULL_JOB
from controller.daemonset.caches import Cached, Caches, owner_key
from controller.imagepull.wanted_jobs import (
    WantedImages,
    WantedJob,
    body,
    first_go_without,
    notes_on,
    old_pods,
    wanted,
)
from controller.kube.client import Client
from controller.kube.errors import ApiError
from controller.kube.kinds import IMAGE_PULL_JOBS
from controller.kube.meaning import ForWrite, meaning_of
from controller.planner.eligibility import Rules
from controller.planner.step import Note
from controller.planner.world import BeingPulled, Unpullable, Unpulled
from controller.runtime.clock import elapsed
from controller.runtime.pass_outcome import outcome
from controller.runtime.store import Store
from controller.runtime.workers import Done, Outcome, PassControl
from controller.runtime.workqueue import Taken


class _KnownRollout(msgspec.Struct):
    """Remembers the rollout of one DaemonSet."""

    hash: str
    """The hash of the current revision."""
    waits: bool
    """Whether nodes wait for their images."""
    seen: set[str] = msgspec.field(default_factory=set)
    """Images whose job has existed. A job that is gone is not created again: it was done, or somebody deleted it."""
    refused: set[str] = msgspec.field(default_factory=set)
    """Images whose job could not be created."""
    failing_since: dict[str, float] = msgspec.field(default_factory=dict)
    """Since when the job of an image cannot be created (`elapsed`)."""

    def relies_on(self, job: ImagePullJob) -> bool:
        """Whether the rollout can use this job. While nodes wait it must never complete: once such a job is gone,
        nodes where it failed would be updated without the image."""
        return job.hash == self.hash and (job.spec.keeps_on or not self.waits)

    def made(self, image: str) -> None:
        self.refused.discard(image)
        self.failing_since.pop(image, None)

    def failed(self, image: str, error: ApiError, patience: float, moment: float) -> None:
        """Note that a job could not be created. A missing answer does not count as a refusal until `patience` is
        over: the job may exist, or may still be created, and nodes wait for it meanwhile."""
        is_over = moment >= self.failing_since.setdefault(image, moment) + patience
        if is_over or not meaning_of(error).write.undecided:
            self.refused.add(image)


class Rollouts:
    """Makes passes over the keys of DaemonSets."""

    def __init__(
        self,
        client: Client,
        caches: Caches,
        jobs: Store[ImagePullJob],
        say: Callable[[DaemonSet, Note], None],
        wake: Callable[[DaemonSet], None],
        rules_of: Callable[[DaemonSet], Rules],
        lacking: Callable[[ImagePullJob, Collection[str]], Mapping[str, Unpulled]],
        is_moved: Callable[[ImagePullJob], bool],
        did: Callable[[Key, str], None],
    ) -> None:
        """`wake` makes the rollout look again which nodes wait. `rules_of` returns the compiled rules of a
        DaemonSet. `lacking` returns those of some nodes that lack the image of a job, as in `state.lacking`;
        `is_moved` tells whether nodes have it under another name. `did` is called for each successful write."""
        self._client, self._caches, self._jobs, self._say = client, caches, jobs, say
        self._wake, self._rules_of, self._did = wake, rules_of, did
        self._lacking, self._is_moved = lacking, is_moved
        self._by_owner = jobs.index(owner_key)
        self._known: dict[str, _KnownRollout] = {}
        """The known rollouts by uid of the DaemonSet."""
        self._removed: set[str] = set()
        """Uids of jobs that we have deleted, or may have, while the cache still shows them."""

    async def __call__(self, taken: Taken[Key], control: PassControl) -> Outcome:
        daemonset = self._caches.daemonsets.get(taken.key)
        if daemonset is None or daemonset.dying:
            return Done()  # its jobs are deleted as its dependents
        revisions, pods = self._caches.revisions_of(daemonset), self._caches.pods_of(daemonset)
        asked = wanted(daemonset, self._rules_of(daemonset), revisions, pods)
        if asked is None:
            return Done()
        control.only_waits()
        client, errors = self._client.apart(), list[ApiError]()
        known = self._known[daemonset.uid] = self._knows(daemonset, asked)
        there = ((job.image, self._ours(daemonset, job)) for job in asked.jobs)
        known.seen.update(image for image, ours in there if ours is not None and known.relies_on(ours))
        try:
            for job in list(self._by_owner.get((daemonset.namespace, daemonset.uid)).values()):
                if not job.dying and not (asked.jobs and known.relies_on(job)):
                    await _collected(self._remove(client, daemonset, job), errors)
            await self._make(client, daemonset, asked, known, errors)
        finally:
            if asked.jobs:
                self._wake(daemonset)
        return outcome(errors)

    def unpulled(self, daemonset: DaemonSet, cached: Cached) -> Mapping[str, Unpulled]:
        """The nodes that wait for images of the current revision. No node waits for a job that is refused, not due
        yet, or deleted. A job that exists is due, whatever happened to updated pods since."""
        asked = wanted(daemonset, self._rules_of(daemonset), cached.revisions, cached.pods)
        if asked is None:
            return {}
        known, found = self._knows(daemonset, asked), dict[str, Unpulled]()
        nodes = set(old_pods(cached.pods, asked.revision.hash))
        for job in asked.jobs:
            there = self._ours(daemonset, job)
            if there is not None:
                lacking = self._lacking(there, nodes)
                failed = {node: one for node, one in lacking.items() if isinstance(one, Unpullable)}
                found = {**lacking, **found, **failed}
            elif not asked.waits and job.image not in known.seen | known.refused:
                found = {**dict.fromkeys(nodes, BeingPulled()), **found}
        if daemonset.in_place:
            return found
        return {node: one for node, one in found.items() if isinstance(one, BeingPulled)}

    def moved(self, daemonset: DaemonSet) -> frozenset[str]:
        """The images that admission moves in pods that are created now, as far as pullers show it."""
        jobs = self._by_owner.get((daemonset.namespace, daemonset.uid)).values()
        return frozenset([job.spec.image for job in jobs if self._is_moved(job)])

    def saw(self, job: ImagePullJob) -> None:
        """Note that this job exists."""
        owner = self._caches.daemonset_of(job)
        known = self._known.get(owner.uid) if owner is not None else None
        if known is not None and known.relies_on(job) and job.uid not in self._removed:
            known.seen.add(job.spec.image)

    def gone(self, job: ImagePullJob) -> None:
        """Forget a job that the cache does not show any more."""
        self._removed.discard(job.uid)

    def forget(self, uid: str) -> None:
        """Forget a DaemonSet that is gone."""
        self._known.pop(uid, None)

    def _knows(self, daemonset: DaemonSet, asked: WantedImages) -> _KnownRollout:
        known, waits = self._known.get(daemonset.uid), daemonset.waits_for_images
        same = known is not None and (known.hash, known.waits) == (asked.revision.hash, waits)
        return known if known is not None and same else _KnownRollout(asked.revision.hash, waits)

    def _ours(self, daemonset: DaemonSet, job: WantedJob) -> ImagePullJob | None:
        """The job if it exists and is ours; not one that is being deleted, which pulls nothing more."""
        found = self._jobs.get(Key(daemonset.namespace, job.name))
        if found is None or found.dying or found.uid in self._removed:
            return None
        return found if found.owner_uid == daemonset.uid else None

    async def _make(
        self, client: Client, daemonset: DaemonSet, asked: WantedImages, known: _KnownRollout, errors: list[ApiError]
    ) -> None:
        """Create the missing jobs, each on its own: if one is refused, the others are still created."""
        missing = [job for job in asked.jobs if job.image not in known.seen]
        if asked.waits:
            if missing and (note := first_go_without(daemonset, asked)) is not None:
                self._say(daemonset, note)
            return
        if missing:
            for note in notes_on(daemonset):
                self._say(daemonset, note)
        for job in missing:
            former = self._jobs.get(Key(daemonset.namespace, job.name))
            if (
                former is not None
                and former.uid in self._removed
                and not await _collected(self._remove(client, daemonset, former), errors)
            ):
                continue  # it may still be deleted at any moment, or remain: nodes wait until that is known
            if await _collected(self._create(client, daemonset, asked, job), errors):
                known.made(job.image)
            else:
                known.failed(job.image, errors[-1], asked.options.timeout, elapsed())

    async def _create(self, client: Client, daemonset: DaemonSet, asked: WantedImages, job: WantedJob) -> None:
        try:
            document = body(daemonset, asked, job)
            await client.create(IMAGE_PULL_JOBS, daemonset.namespace, document, name=job.name)
        except ApiError as error:
            there = self._jobs.get(Key(daemonset.namespace, job.name))
            means = meaning_of(error).write
            if means is ForWrite.EXISTS and (there is None or self._ours(daemonset, job) is not None):
                return  # our own, not seen yet
            if means is not ForWrite.ENDING:
                message = f"Error creating ImagePullJob: {error.message}"
                self._say(daemonset, Note(warning=True, reason=FAILED_CREATE_IMAGE_PULL_JOB, message=message))
            raise
        self._did(daemonset.key, "CreateJob")
        words = f"Created ImagePullJob {job.name} for image {job.image}"
        self._say(daemonset, Note(warning=False, reason=CREATED_IMAGE_PULL_JOB, message=words))

    async def _remove(self, client: Client, daemonset: DaemonSet, job: ImagePullJob) -> None:
        self._removed.add(job.uid)  # from now on it may be gone
        try:
            await client.delete(IMAGE_PULL_JOBS, job.ref, propagation="Background")
        except ApiError as error:
            means = meaning_of(error).write
            if means in (ForWrite.ABSENT, ForWrite.OVERTAKEN):
                return
            if means.refused:
                self._removed.discard(job.uid)
            raise
        self._did(daemonset.key, "DeleteJob")


async def _collected(write: Awaitable[None], errors: list[ApiError]) -> bool:
    """Await `write`; returns whether it succeeded, and adds its error to `errors`."""
    try:
        await write
    except ApiError as error:
        errors.append(error)
        return False
    return True
