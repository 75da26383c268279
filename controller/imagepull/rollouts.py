"""Creates and deletes the ImagePullJobs that rollouts want. Failures are retried and block no rollout."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from controller.api.daemonset import DaemonSet
from controller.api.image_pull_job import ImagePullJob, keeps_images
from controller.api.names import CREATED_IMAGE_PULL_JOB, FAILED_CREATE_IMAGE_PULL_JOB
from controller.api.objects import Key
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.imagepull.job_reconcile import JobReconciler, nodes_with_other_revision
from controller.imagepull.job_state import nodes_without_image
from controller.imagepull.wanted import (
    WantedImages,
    WantedJob,
    annotation_notes,
    deferral_notes,
    manifest,
    wanted_images,
)
from controller.kube.client import Client
from controller.kube.errors import ApiError, WriteVerdict, classify, is_gone
from controller.kube.requests import IMAGE_PULL_JOBS
from controller.observe.instrumentation import PassLog
from controller.planner.actions import Note
from controller.planner.failure import effective_daemonset
from controller.planner.world import BeingPulled, Unpullable, Unpulled
from controller.reconcile.caches import Cached, Caches
from controller.reconcile.dependencies import Dependencies
from controller.reconcile.state import DaemonSetStates
from controller.reconcile.write_outcomes import outcome_of
from controller.runtime.clock import elapsed
from controller.runtime.pacing import PacedQueue
from controller.runtime.workers import Done, Outcome, Requeue, outcome
from controller.runtime.workqueue import WorkItem


class RolloutJobs:
    """Creates and deletes the jobs that DaemonSets want, and knows which nodes wait for them."""

    def __init__(
        self,
        dependencies: Dependencies,
        caches: Caches,
        reconciler: JobReconciler,
        *,
        states: DaemonSetStates,
        daemonset_queue: PacedQueue[Key],
    ) -> None:
        self._client, self._caches, self._observer = dependencies.client, caches, dependencies.observer
        self._reconciler, self._daemonset_states, self._daemonset_queue = reconciler, states, daemonset_queue
        self._states: dict[str, _ImagesState] = {}
        """By DaemonSet uid."""
        self._removed: set[str] = set()
        """Uids of jobs still in the cache that we have deleted or may have deleted."""

    async def __call__(self, item: WorkItem[Key], requeue: Requeue) -> Outcome:
        found = self._caches.daemonsets.get(item.key)
        if found is None or found.terminating:
            return Done()  # its jobs are deleted as its dependents
        revisions, pods = self._caches.revisions_of(found), self._caches.pods_of(found)
        daemonset = effective_daemonset(found, revisions)
        wanted = self._wanted(daemonset, revisions, pods)
        if wanted is None:
            return Done()
        client, errors = self._client.with_reserved_permit(), list[ApiError | None]()
        state = self._states[daemonset.uid] = self._state_of(daemonset, wanted)
        existing = ((job.image, self._existing(daemonset, job)) for job in wanted.jobs)
        state.existed.update(image for image, job in existing if job is not None and state.can_use(job))
        try:
            for job in self._caches.jobs_of(daemonset):
                if not job.terminating and not (wanted.jobs and state.can_use(job)):
                    errors.append(await self._remove(client, job))
            errors += await self._create_missing(client, daemonset, wanted, state)
        finally:
            if wanted.jobs:
                self._daemonset_queue.enqueue(daemonset.key, "soon", "images")
        return outcome([error for error in errors if error is not None])

    def unpulled(self, daemonset: DaemonSet, cached: Cached) -> Mapping[str, Unpulled]:
        """The nodes that wait for images of the current revision, but not for refused, deferred or deleted jobs. An
        existing job is not deferred, whatever happened to updated pods since."""
        wanted = self._wanted(daemonset, cached.revisions, cached.pods)
        if wanted is None:
            return {}
        state, found = self._state_of(daemonset, wanted), dict[str, Unpulled]()
        nodes = set(nodes_with_other_revision(cached.pods, wanted.revision.hash))
        for job in wanted.jobs:
            existing = self._existing(daemonset, job)
            if existing is not None:
                state_of_job = self._reconciler.remembered(existing)
                without = nodes_without_image(existing, state_of_job, nodes, self._keeps_images)
                failed = {node: pull for node, pull in without.items() if isinstance(pull, Unpullable)}
                found = {**without, **found, **failed}
            elif not wanted.deferred and job.image not in state.existed | state.refused:
                found = {**dict.fromkeys(nodes, BeingPulled()), **found}
        if daemonset.in_place:
            return found
        return {node: pull for node, pull in found.items() if isinstance(pull, BeingPulled)}

    def mutated_images(self, daemonset: DaemonSet) -> frozenset[str]:
        """The images that admission changes in new pods, as far as pullers show it: nodes have another one."""
        jobs = [(job, self._reconciler.remembered(job)) for job in self._caches.jobs_of(daemonset)]
        return frozenset([job.spec.image for job, state in jobs if state is not None and state.mutates_image])

    def job_seen(self, job: ImagePullJob) -> None:
        owner = self._caches.daemonset_of(job)
        state = self._states.get(owner.uid) if owner is not None else None
        if state is not None and state.can_use(job) and job.uid not in self._removed:
            state.existed.add(job.spec.image)

    def job_gone(self, job: ImagePullJob) -> None:
        self._removed.discard(job.uid)

    def forget(self, uid: str) -> None:
        self._states.pop(uid, None)

    def _keeps_images(self, name: str) -> bool:
        node = self._caches.nodes.get(Key("", name))
        return node is None or keeps_images(node)

    def _wanted(
        self, daemonset: DaemonSet, revisions: Collection[Revision], pods: Collection[Pod]
    ) -> WantedImages | None:
        rules = self._daemonset_states.of(daemonset.uid).compiled_for(daemonset).rules
        return wanted_images(daemonset, rules, revisions, pods)

    def _state_of(self, daemonset: DaemonSet, wanted: WantedImages) -> _ImagesState:
        known, waits = self._states.get(daemonset.uid), daemonset.waits_for_images
        if known is not None and (known.hash, known.waits) == (wanted.revision.hash, waits):
            return known
        return _ImagesState(wanted.revision.hash, waits)

    def _existing(self, daemonset: DaemonSet, job: WantedJob) -> ImagePullJob | None:
        """The job if it exists, is ours, and is not being deleted: then it pulls nothing more."""
        found = self._caches.jobs.get(Key(daemonset.namespace, job.name))
        if found is None or found.terminating or found.uid in self._removed:
            return None
        return found if found.owner_uid == daemonset.uid else None

    async def _create_missing(
        self, client: Client, daemonset: DaemonSet, wanted: WantedImages, state: _ImagesState
    ) -> list[ApiError | None]:
        """Creates each missing job, even if another one is refused. Returns the errors."""
        missing = [job for job in wanted.jobs if job.image not in state.existed]
        if missing:
            for note in deferral_notes(daemonset, wanted) if wanted.deferred else annotation_notes(daemonset):
                self._observer.event(daemonset, note)
        if wanted.deferred:
            return []
        errors: list[ApiError | None] = []
        for job in missing:
            former = self._caches.jobs.get(Key(daemonset.namespace, job.name))
            is_removed = former is not None and former.uid in self._removed
            error = await self._remove(client, former) if former and is_removed else None
            if error is None:  # else it may be deleted at any moment, or remain: nodes wait until that is known
                error = await self._create(client, daemonset, wanted, job)
                state.create_answered(job.image, error, wanted.options.timeout, elapsed())
            errors.append(error)
        return errors

    async def _create(
        self, client: Client, daemonset: DaemonSet, wanted: WantedImages, job: WantedJob
    ) -> ApiError | None:
        """Returns the error if the job does not exist."""
        try:
            document = manifest(daemonset, wanted, job)
            await client.create(IMAGE_PULL_JOBS, daemonset.namespace, document, name=job.name)
        except ApiError as error:
            present = self._caches.jobs.get(Key(daemonset.namespace, job.name))
            if classify(error).write is WriteVerdict.ALREADY_EXISTS and (
                present is None or self._existing(daemonset, job) is not None
            ):
                return None  # our own, not seen yet
            if outcome_of(error).report_create:
                message = f"Error creating ImagePullJob: {error.message}"
                note = Note(warning=True, reason=FAILED_CREATE_IMAGE_PULL_JOB, message=message)
                self._observer.event(daemonset, note)
            return error
        PassLog.count_write("CreateJob")
        message = f"Created ImagePullJob {job.name} for image {job.image}"
        self._observer.event(daemonset, Note(warning=False, reason=CREATED_IMAGE_PULL_JOB, message=message))
        return None

    async def _remove(self, client: Client, job: ImagePullJob) -> ApiError | None:
        """Deletes a job; returns the error if it may still exist."""
        self._removed.add(job.uid)  # from now on it may be gone
        try:
            await client.delete(IMAGE_PULL_JOBS, job.ref, propagation="Background")
        except ApiError as error:
            if is_gone(error):
                return None
            if classify(error).write.refused:
                self._removed.discard(job.uid)
            return error
        PassLog.count_write("DeleteJob")
        return None


class _ImagesState(msgspec.Struct):
    hash: str
    waits: bool
    """Whether nodes wait for their images."""
    existed: set[str] = msgspec.field(default_factory=set)
    """Images whose job has existed. A missing job had completed or was deleted by a user, and is not re-created."""
    refused: set[str] = msgspec.field(default_factory=set)
    failing_since: dict[str, float] = msgspec.field(default_factory=dict)
    """Since when each image's job cannot be created (`elapsed`)."""

    def can_use(self, job: ImagePullJob) -> bool:
        """While nodes wait, the job must never complete: failed nodes would be updated without the image."""
        return job.hash == self.hash and (job.spec.never_completes or not self.waits)

    def create_answered(self, image: str, error: ApiError | None, patience: float, moment: float) -> None:
        """A missing answer counts as a refusal only after `patience` seconds: the job may still exist."""
        if error is None:
            self.refused.discard(image)
            self.failing_since.pop(image, None)
            return
        is_over = moment >= self.failing_since.setdefault(image, moment) + patience
        if is_over or not classify(error).write.undecided:
            self.refused.add(image)
