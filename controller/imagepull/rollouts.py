"""Works out the ImagePullJobs that the rollout of a DaemonSet wants: one per image that nodes with an old pod lack.

Pure. The result depends on what there is, not on what was done before, so that a rollback gets its jobs too.

Creates the ImagePullJobs that the rollout of a DaemonSet wants, deletes those that it does not want any more, and
knows which nodes wait for them.

It runs beside the rollout: a failure here is reported and retried, and the rollout does not wait for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from controller.api.daemonset import DaemonSet
from controller.api.formats import LONGEST_ITEM, IntOrPercent, is_well_formed, scaled, shortened
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
from controller.kube.client import Client
from controller.kube.errors import ApiError, WriteVerdict, classify
from controller.kube.requests import IMAGE_PULL_JOBS
from controller.planner.actions import Note
from controller.planner.limits import budget_of
from controller.planner.node_fit import Rules
from controller.planner.pod_template import owner_reference
from controller.planner.revisions import of_template, stored_current
from controller.planner.world import BeingPulled, Unpullable, Unpulled
from controller.reconcile.caches import Cached, Caches, owner_key
from controller.runtime.clock import elapsed
from controller.runtime.store import Store
from controller.runtime.workers import Done, Outcome, Requeue, outcome
from controller.runtime.workqueue import WorkItem

TIMEOUT_SECONDS = 300
LONGEST_TIMEOUT = 86_400
RETRIES = 1
TTL_SECONDS = 600
"""Seconds for one attempt (default and most), retries, and seconds that a finished job stays."""
_LONGEST_NAME = 253
"""Characters of the name of an object (RFC 1123)."""
_AMOUNT = "a whole number or a percentage up to 100%"


class WantedJob(Value):
    name: str
    image: str


class _JobOptions(Value, gc=True):
    """The settings in the annotations."""

    parallelism: IntOrPercent = 1
    timeout: int = TIMEOUT_SECONDS
    """Seconds for one attempt on one node."""
    min_updated: IntOrPercent = 0
    unread: Mapping[str, str] = {}
    """Texts about unreadable annotations, by annotation: what it should be, and what is used instead."""

    def updated(self, desired: int) -> int:
        return scaled(self.min_updated, desired, round_up=True)


class WantedImages(Value, gc=True):
    revision: Revision
    """The current revision."""
    desired: int = 0
    """How many nodes should run a pod; percentages are of this number."""
    jobs: tuple[WantedJob, ...] = ()
    waits: bool = False
    """Whether jobs have to wait because too few updated pods are ready."""
    options: _JobOptions = _JobOptions()


def wanted(
    daemonset: DaemonSet, rules: Rules, revisions: Collection[Revision], pods: Collection[Pod]
) -> WantedImages | None:
    """The wanted jobs; None: the current revision is not stored yet, or the spec cannot be used. `rules` are those of
    the DaemonSet."""
    current = stored_current(daemonset, revisions)
    if current is None or rules.problems:
        return None
    same = {one.hash for one in of_template(daemonset, revisions)}
    live = [pod for pod in pods if pod.node and not pod.dying and not pod.ended]
    old = {pod.hash for pod in live if pod.hash not in same}
    desired = (daemonset.status.desired_number_scheduled if daemonset.status else 0) or len(live)
    if not old or _is_one_wave(daemonset, desired):
        return WantedImages(revision=current, desired=desired)
    templates = {one.hash: one.template for one in revisions}
    there = [set(images_of(templates.get(hash_) or {}).values()) for hash_ in old]
    jobs: dict[str, WantedJob] = {}
    for container, image in images_of(daemonset.spec.template).items():
        if not all(image in images for images in there):
            jobs.setdefault(image, WantedJob(name=_name(f"{current.name}-{container}"), image=image))
    ready = sum(pod.ready and pod.hash == current.hash for pod in live)
    options = _settings(daemonset)
    return WantedImages(
        revision=current,
        desired=desired,
        jobs=tuple(jobs.values()),
        waits=ready < options.updated(desired),
        options=options,
    )


def old_pods(pods: Collection[Pod], hash_: str) -> Iterator[str]:
    """The nodes of live pods of another revision: a job pulls for these."""
    return (pod.node for pod in pods if pod.node and not pod.dying and not pod.ended and pod.hash != hash_)


def _name(whole: str) -> str:
    """`whole` as a name. If it is too long, its end is replaced by a hash of all of it, because revisions differ in
    the end of their names."""
    if len(whole) <= _LONGEST_NAME:
        return whole
    tail = short_hash(whole, length=8)
    return f"{whole[: _LONGEST_NAME - 1 - len(tail)].rstrip('.-')}-{tail}"


def images_of(template: JSONObject) -> Mapping[str, str]:
    """The image of each container, init containers first."""
    spec = fields_of(template.get("spec"))
    found = [*items_of(spec.get("initContainers")), *items_of(spec.get("containers"))]
    return {str(one.get("name")): image for one in found if isinstance(image := one.get("image"), str) and image}


def notes_on(daemonset: DaemonSet) -> tuple[Note, ...]:
    """Notes about annotations that cannot be read, and the default that is used."""
    return tuple(
        Note(
            warning=True,
            reason=INVALID_ANNOTATION,
            message=f"annotation {name}: {shortened(daemonset.annotations[name], LONGEST_ITEM)!r} is not {what}",
        )
        for name, what in _settings(daemonset).unread.items()
    )


def first_go_without(daemonset: DaemonSet, asked: WantedImages) -> Note | None:
    """A note if an annotation lets nodes be updated in place before images were pulled in advance; else None."""
    if not (daemonset.in_place and daemonset.waits_for_images):
        return None
    nodes = asked.options.updated(asked.desired)
    words = f"images are pulled ahead once {nodes} updated pods are ready, as annotation {MIN_UPDATED_ANNOTATION} "
    words += "says: the first nodes pull them during the update, while no container runs there"
    return Note(warning=False, once=True, reason=PRE_DOWNLOAD_DEFERRED, message=words)


def body(daemonset: DaemonSet, asked: WantedImages, job: WantedJob) -> JSONObject:
    """The body of a job. A percentage becomes a number of nodes: the job would take it of the remaining nodes, and
    pull on fewer and fewer."""
    revision = asked.revision
    spec, settings = fields_of(daemonset.spec.template.get("spec")), asked.options
    others = Requirement(key=HASH_LABEL, operator="NotIn", values=(revision.hash,))
    expressions = (*(daemonset.spec.selector.match_expressions or ()), others)
    annotations = fields_of(fields_of(daemonset.spec.template.get("metadata")).get("annotations"))
    secrets: list[JSON] = [one.get("name") for one in items_of(spec.get("imagePullSecrets"))]
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")  # the deprecated name
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
            "parallelism": scaled(settings.parallelism, asked.desired, round_up=True),
            "pullPolicy": {"timeoutSeconds": settings.timeout, "backoffLimit": RETRIES},
            "completionPolicy": _ends(daemonset),
            **({"pullSecrets": secrets} if secrets else {}),
            **({"sandboxConfig": {"annotations": annotations}} if annotations else {}),
        },
    }


def _ends(daemonset: DaemonSet) -> JSONObject:
    """The completionPolicy. If nodes wait for the images, including nodes that get an old pod later, the job lasts as
    long as the rollout; deleting it ends the wait."""
    if daemonset.waits_for_images:
        return {"type": NEVER}
    return {"type": ALWAYS, "ttlSecondsAfterFinished": TTL_SECONDS}


def _settings(daemonset: DaemonSet) -> _JobOptions:
    unread: dict[str, str] = {}

    def read(name: str, default: IntOrPercent, fits: Callable[[IntOrPercent], bool], what: str) -> IntOrPercent:
        text = daemonset.annotations.get(name)
        if text is None:
            return default
        value: IntOrPercent = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else text
        if fits(value):
            return value
        unread[name] = f"{what}, so {default} is used"
        return default

    if daemonset.unreadable_wait is not None:
        taken = "true" if daemonset.waits_for_images else "false"
        unread[PREDOWNLOAD_WAIT_ANNOTATION] = f"true or false, so {taken} is used"
    what = f"a number of seconds from 1 to {LONGEST_TIMEOUT}"
    seconds = read(
        TIMEOUT_ANNOTATION, TIMEOUT_SECONDS, lambda one: isinstance(one, int) and 1 <= one <= LONGEST_TIMEOUT, what
    )
    return _JobOptions(
        parallelism=read(PARALLELISM_ANNOTATION, 1, _is_amount, _AMOUNT),
        timeout=int(seconds),
        min_updated=read(MIN_UPDATED_ANNOTATION, 0, _is_amount, _AMOUNT),
        unread=unread,
    )


def _is_amount(value: IntOrPercent) -> bool:
    return is_well_formed(value) and scaled(value, 100, round_up=True) <= (100 if isinstance(value, str) else value)


def _is_one_wave(daemonset: DaemonSet, desired: int) -> bool:
    """Whether all nodes are updated at once: then pulling in advance gains nothing."""
    if daemonset.rolling_update is None:
        return False
    budget = budget_of(daemonset, desired)
    return budget.partition == 0 and max(budget.max_unavailable, budget.max_surge) >= desired


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
        if is_over or not classify(error).write.undecided:
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
        did: Callable[[str], None],
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

    async def __call__(self, taken: WorkItem[Key], requeue: Requeue) -> Outcome:
        daemonset = self._caches.daemonsets.get(taken.key)
        if daemonset is None or daemonset.dying:
            return Done()  # its jobs are deleted as its dependents
        revisions, pods = self._caches.revisions_of(daemonset), self._caches.pods_of(daemonset)
        asked = wanted(daemonset, self._rules_of(daemonset), revisions, pods)
        if asked is None:
            return Done()
        client, errors = self._client.with_reserved_permit(), list[ApiError]()
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
            means = classify(error).write
            if means is WriteVerdict.ALREADY_EXISTS and (there is None or self._ours(daemonset, job) is not None):
                return  # our own, not seen yet
            if means is not WriteVerdict.NAMESPACE_TERMINATING:
                message = f"Error creating ImagePullJob: {error.message}"
                self._say(daemonset, Note(warning=True, reason=FAILED_CREATE_IMAGE_PULL_JOB, message=message))
            raise
        self._did("CreateJob")
        words = f"Created ImagePullJob {job.name} for image {job.image}"
        self._say(daemonset, Note(warning=False, reason=CREATED_IMAGE_PULL_JOB, message=words))

    async def _remove(self, client: Client, daemonset: DaemonSet, job: ImagePullJob) -> None:
        self._removed.add(job.uid)  # from now on it may be gone
        try:
            await client.delete(IMAGE_PULL_JOBS, job.ref, propagation="Background")
        except ApiError as error:
            means = classify(error).write
            if means in (WriteVerdict.NOT_FOUND, WriteVerdict.CONFLICT):
                return
            if means.refused:
                self._removed.discard(job.uid)
            raise
        self._did("DeleteJob")


async def _collected(write: Awaitable[None], errors: list[ApiError]) -> bool:
    """Await `write`; returns whether it succeeded, and adds its error to `errors`."""
    try:
        await write
    except ApiError as error:
        errors.append(error)
        return False
    return True
