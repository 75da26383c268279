"""The ImagePullJobs that the rollout of a DaemonSet wants: one per image that nodes with an old pod lack.

They depend only on the present state, so a rollback gets its jobs too. Failures are retried and block no rollout.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import msgspec
from msgspec.structs import replace

from controller.api.daemonset import DaemonSet
from controller.api.formats import LONGEST_ITEM, IntOrPercent, counted, is_well_formed, scaled, truncated
from controller.api.image_pull_job import ALWAYS, JOB_KIND, NEVER, ImagePullJob
from controller.api.names import (
    API_VERSION,
    CREATED_IMAGE_PULL_JOB,
    FAILED_CREATE_IMAGE_PULL_JOB,
    HASH_LABEL,
    INVALID_ANNOTATION,
    MIN_UPDATED_ANNOTATION,
    PARALLELISM_ANNOTATION,
    PRE_DOWNLOAD_DEFERRED,
    PREDOWNLOAD_WAIT_ANNOTATION,
    SERVICE_ACCOUNT_ANNOTATION,
    TIMEOUT_ANNOTATION,
)
from controller.api.objects import JSON, JSONObject, Key, Value, as_json, fields_of, items_of
from controller.api.pod import Pod
from controller.api.revision import Revision, short_hash
from controller.api.selector import Requirement
from controller.imagepull.reconcile import JobReconciler, nodes_with_other_revision
from controller.kube.client import Client
from controller.kube.errors import ApiError, WriteVerdict, classify
from controller.kube.requests import IMAGE_PULL_JOBS
from controller.observe.instrumentation import PassLog
from controller.planner.actions import Note
from controller.planner.failure import effective_daemonset
from controller.planner.limits import budget_of
from controller.planner.node_fit import Rules
from controller.planner.pod_template import owner_reference
from controller.planner.revisions import of_template, stored_current
from controller.planner.world import BeingPulled, Unpullable, Unpulled
from controller.reconcile.caches import Cached, Caches
from controller.reconcile.dependencies import Observer
from controller.reconcile.state import DaemonSetStates
from controller.runtime.clock import elapsed
from controller.runtime.pacing import PacedQueue
from controller.runtime.workers import Done, Outcome, Requeue, outcome
from controller.runtime.workqueue import WorkItem

TIMEOUT_SECONDS = 300
MAX_TIMEOUT_SECONDS = 86_400
RETRIES = 1
TTL_SECONDS = 600
"""Seconds per attempt (default and maximum), retries, and seconds that a finished job stays."""
_MAX_NAME = 253
"""Characters in an object name (RFC 1123)."""
_AMOUNT = "a whole number or a percentage up to 100%"


class WantedJob(Value):
    name: str
    image: str


class _Options(Value, gc=True):
    """The options of jobs, from annotations of the DaemonSet."""

    parallelism: IntOrPercent = 1
    timeout: int = TIMEOUT_SECONDS
    min_updated: IntOrPercent = 0
    invalid: Mapping[str, str] = {}
    """By annotation, the expected form and the value used instead."""

    def min_updated_pods(self, desired: int) -> int:
        return scaled(self.min_updated, desired, round_up=True)


class WantedImages(Value, gc=True):
    revision: Revision
    desired: int = 0
    """Nodes that should run a pod; the base of percentages."""
    jobs: tuple[WantedJob, ...] = ()
    deferred: bool = False
    """Whether jobs must wait because too few updated pods are ready."""
    options: _Options = _Options()


class RolloutJobs:
    """Creates and deletes the jobs that DaemonSets want, and knows which nodes wait for them."""

    def __init__(
        self,
        client: Client,
        caches: Caches,
        reconciler: JobReconciler,
        observer: Observer,
        *,
        states: DaemonSetStates,
        daemonset_queue: PacedQueue[Key],
    ) -> None:
        self._client, self._caches, self._observer = client, caches, observer
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
        client, errors = self._client.with_reserved_permit(), list[ApiError]()
        state = self._states[daemonset.uid] = self._state_of(daemonset, wanted)
        existing = ((job.image, self._existing(daemonset, job)) for job in wanted.jobs)
        state.existed.update(image for image, job in existing if job is not None and state.can_use(job))
        try:
            for job in self._caches.jobs_of(daemonset):
                if not job.terminating and not (wanted.jobs and state.can_use(job)):
                    errors += await self._remove(client, daemonset, job)
            errors += await self._create_missing(client, daemonset, wanted, state)
        finally:
            if wanted.jobs:
                self._daemonset_queue.enqueue(daemonset.key, "soon", "images")
        return outcome(errors)

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
                without = self._reconciler.without_image(existing, nodes)
                failed = {node: one for node, one in without.items() if isinstance(one, Unpullable)}
                found = {**without, **found, **failed}
            elif not wanted.deferred and job.image not in state.existed | state.refused:
                found = {**dict.fromkeys(nodes, BeingPulled()), **found}
        if daemonset.in_place:
            return found
        return {node: one for node, one in found.items() if isinstance(one, BeingPulled)}

    def moved(self, daemonset: DaemonSet) -> frozenset[str]:
        """The images that admission changes in new pods, as far as pullers show it."""
        jobs = self._caches.jobs_of(daemonset)
        return frozenset([job.spec.image for job in jobs if self._reconciler.is_moved(job)])

    def job_seen(self, job: ImagePullJob) -> None:
        owner = self._caches.daemonset_of(job)
        state = self._states.get(owner.uid) if owner is not None else None
        if state is not None and state.can_use(job) and job.uid not in self._removed:
            state.existed.add(job.spec.image)

    def job_gone(self, job: ImagePullJob) -> None:
        self._removed.discard(job.uid)

    def forget(self, uid: str) -> None:
        self._states.pop(uid, None)

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
    ) -> list[ApiError]:
        """Creates each missing job, even if another one is refused."""
        missing = [job for job in wanted.jobs if job.image not in state.existed]
        if missing:
            for note in deferral_notes(daemonset, wanted) if wanted.deferred else annotation_notes(daemonset):
                self._observer.event(daemonset, note)
        if wanted.deferred:
            return []
        errors: list[ApiError] = []
        for job in missing:
            former = self._caches.jobs.get(Key(daemonset.namespace, job.name))
            is_removed = former is not None and former.uid in self._removed
            if former and is_removed and (failed := await self._remove(client, daemonset, former)):
                errors += failed
                continue  # it may still be deleted at any moment, or remain: nodes wait until that is known
            try:
                await self._create(client, daemonset, wanted, job)
            except ApiError as error:
                errors.append(error)
                state.create_failed(job.image, error, wanted.options.timeout, elapsed())
            else:
                state.created(job.image)
        return errors

    async def _create(self, client: Client, daemonset: DaemonSet, wanted: WantedImages, job: WantedJob) -> None:
        try:
            document = manifest(daemonset, wanted, job)
            await client.create(IMAGE_PULL_JOBS, daemonset.namespace, document, name=job.name)
        except ApiError as error:
            present = self._caches.jobs.get(Key(daemonset.namespace, job.name))
            verdict = classify(error).write
            if verdict is WriteVerdict.ALREADY_EXISTS and (
                present is None or self._existing(daemonset, job) is not None
            ):
                return  # our own, not seen yet
            if verdict is not WriteVerdict.NAMESPACE_TERMINATING:
                message = f"Error creating ImagePullJob: {error.message}"
                self._observer.event(
                    daemonset, Note(warning=True, reason=FAILED_CREATE_IMAGE_PULL_JOB, message=message)
                )
            raise
        PassLog.count_write("CreateJob")
        message = f"Created ImagePullJob {job.name} for image {job.image}"
        self._observer.event(daemonset, Note(warning=False, reason=CREATED_IMAGE_PULL_JOB, message=message))

    async def _remove(self, client: Client, daemonset: DaemonSet, job: ImagePullJob) -> list[ApiError]:
        """Deletes a job; returns the error if it may still exist."""
        self._removed.add(job.uid)  # from now on it may be gone
        try:
            await client.delete(IMAGE_PULL_JOBS, job.ref, propagation="Background")
        except ApiError as error:
            verdict = classify(error).write
            if verdict in (WriteVerdict.NOT_FOUND, WriteVerdict.CONFLICT):
                return []
            if verdict.refused:
                self._removed.discard(job.uid)
            return [error]
        PassLog.count_write("DeleteJob")
        return []


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

    def created(self, image: str) -> None:
        self.refused.discard(image)
        self.failing_since.pop(image, None)

    def create_failed(self, image: str, error: ApiError, patience: float, moment: float) -> None:
        """A missing answer counts as a refusal only after `patience` seconds: the job may still exist."""
        is_over = moment >= self.failing_since.setdefault(image, moment) + patience
        if is_over or not classify(error).write.undecided:
            self.refused.add(image)


def wanted_images(
    daemonset: DaemonSet, rules: Rules, revisions: Collection[Revision], pods: Collection[Pod]
) -> WantedImages | None:
    """None if the current revision is not stored yet or the spec cannot be used. `rules` are the DaemonSet's."""
    current = stored_current(daemonset, revisions)
    if current is None or rules.problems:
        return None
    same = {one.hash for one in of_template(daemonset, revisions)}
    live = [pod for pod in pods if pod.node and not pod.terminating and not pod.ended]
    old = {pod.hash for pod in live if pod.hash not in same}
    desired = (daemonset.status.desired_number_scheduled if daemonset.status else 0) or len(live)
    if not old or _is_one_wave(daemonset, desired):
        return WantedImages(revision=current, desired=desired)
    templates = {one.hash: one.template for one in revisions}
    present = [set(images_of(templates.get(hash_) or {}).values()) for hash_ in old]
    jobs: dict[str, WantedJob] = {}
    for container, image in images_of(daemonset.spec.template).items():
        if not all(image in images for images in present):
            jobs.setdefault(image, WantedJob(name=_job_name(f"{current.name}-{container}"), image=image))
    ready = sum(pod.ready and pod.hash == current.hash for pod in live)
    options = _options_of(daemonset)
    return WantedImages(
        revision=current,
        desired=desired,
        jobs=tuple(jobs.values()),
        deferred=ready < options.min_updated_pods(desired),
        options=options,
    )


def images_of(template: JSONObject) -> Mapping[str, str]:
    spec = fields_of(template.get("spec"))
    found = [*items_of(spec.get("initContainers")), *items_of(spec.get("containers"))]
    return {str(one.get("name")): image for one in found if isinstance(image := one.get("image"), str) and image}


def _is_one_wave(daemonset: DaemonSet, desired: int) -> bool:
    """Whether all nodes are updated at once: then pulling in advance gains nothing."""
    if daemonset.rolling_update is None:
        return False
    budget = budget_of(daemonset, desired)
    return budget.partition == 0 and max(budget.max_unavailable, budget.max_surge) >= desired


def _job_name(whole: str) -> str:
    """Replaces the end of a name that is too long by a hash of all of it, because revisions differ at the end."""
    if len(whole) <= _MAX_NAME:
        return whole
    tail = short_hash(whole, length=8)
    return f"{whole[: _MAX_NAME - 1 - len(tail)].rstrip('.-')}-{tail}"


def manifest(daemonset: DaemonSet, wanted: WantedImages, job: WantedJob) -> JSONObject:
    """A percentage becomes a number of nodes: the job would apply it to the remaining, ever fewer nodes. If nodes
    wait, even those that get an old pod later, the job lasts as long as the rollout; deleting it ends the wait."""
    revision = wanted.revision
    spec, options = fields_of(daemonset.spec.template.get("spec")), wanted.options
    others = Requirement(key=HASH_LABEL, operator="NotIn", values=(revision.hash,))
    expressions = (*(daemonset.spec.selector.match_expressions or ()), others)
    annotations = fields_of(fields_of(daemonset.spec.template.get("metadata")).get("annotations"))
    secrets: list[JSON] = [one.get("name") for one in items_of(spec.get("imagePullSecrets"))]
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")  # the deprecated name
    completes: JSONObject = {"type": ALWAYS, "ttlSecondsAfterFinished": TTL_SECONDS}
    return {
        "apiVersion": API_VERSION,
        "kind": JOB_KIND,
        "metadata": {
            "name": job.name,
            "namespace": daemonset.namespace,
            "labels": {HASH_LABEL: revision.hash},
            **({"annotations": {SERVICE_ACCOUNT_ANNOTATION: account}} if account else {}),
            "ownerReferences": [owner_reference(daemonset)],
        },
        "spec": {
            "image": job.image,
            "podSelector": as_json(replace(daemonset.spec.selector, match_expressions=expressions)),
            "parallelism": scaled(options.parallelism, wanted.desired, round_up=True),
            "pullPolicy": {"timeoutSeconds": options.timeout, "backoffLimit": RETRIES},
            "completionPolicy": {"type": NEVER} if daemonset.waits_for_images else completes,
            **({"pullSecrets": secrets} if secrets else {}),
            **({"sandboxConfig": {"annotations": annotations}} if annotations else {}),
        },
    }


def annotation_notes(daemonset: DaemonSet) -> tuple[Note, ...]:
    return tuple(
        Note(
            warning=True,
            reason=INVALID_ANNOTATION,
            message=f"annotation {name}: {truncated(daemonset.annotations[name], LONGEST_ITEM)!r} is not {what}",
        )
        for name, what in _options_of(daemonset).invalid.items()
    )


def deferral_notes(daemonset: DaemonSet, wanted: WantedImages) -> tuple[Note, ...]:
    """A note if an annotation allows updates in place before images were pulled in advance."""
    if not (daemonset.in_place and daemonset.waits_for_images):
        return ()
    pods = counted(wanted.options.min_updated_pods(wanted.desired), "updated pod", "is")
    message = (
        f"images are pulled ahead once {pods} ready, as annotation {MIN_UPDATED_ANNOTATION} says: "
        "the first nodes pull them during the update, while no container runs there"
    )
    return (Note(warning=False, once=True, reason=PRE_DOWNLOAD_DEFERRED, message=message),)


def _options_of(daemonset: DaemonSet) -> _Options:
    invalid: dict[str, str] = {}

    def read(name: str, default: IntOrPercent, is_valid: Callable[[IntOrPercent], bool], what: str) -> IntOrPercent:
        text = daemonset.annotations.get(name)
        if text is None:
            return default
        value: IntOrPercent = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else text
        if is_valid(value):
            return value
        invalid[name] = f"{what}, so {default} is used"
        return default

    if daemonset.invalid(PREDOWNLOAD_WAIT_ANNOTATION) is not None:
        used = "true" if daemonset.waits_for_images else "false"
        invalid[PREDOWNLOAD_WAIT_ANNOTATION] = f"true or false, so {used} is used"
    seconds = read(
        TIMEOUT_ANNOTATION,
        TIMEOUT_SECONDS,
        lambda one: isinstance(one, int) and 1 <= one <= MAX_TIMEOUT_SECONDS,
        f"a number of seconds from 1 to {MAX_TIMEOUT_SECONDS}",
    )
    return _Options(
        parallelism=read(PARALLELISM_ANNOTATION, 1, _is_amount, _AMOUNT),
        timeout=int(seconds),
        min_updated=read(MIN_UPDATED_ANNOTATION, 0, _is_amount, _AMOUNT),
        invalid=invalid,
    )


def _is_amount(value: IntOrPercent) -> bool:
    return is_well_formed(value) and scaled(value, 100, round_up=True) <= (100 if isinstance(value, str) else value)
