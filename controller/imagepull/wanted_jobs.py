"""Works out the ImagePullJobs that the rollout of a DaemonSet wants: one per image that nodes with an old pod lack.

Pure. The result depends on what there is, not on what was done before, so that a rollback gets its jobs too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from msgspec.structs import replace

from controller.api.base import JSON, JSONObject, Value, as_json, fields_of, items_of
from controller.api.daemonset import DaemonSet
from controller.api.image_pull_job import ALWAYS, JOB_KIND, NEVER
from controller.api.number import IntOrPercent, is_well_formed, scaled
from controller.api.pod import Pod
from controller.api.revision import Revision, short_hash
from controller.api.selector import Requirement
from controller.api.text import LONGEST_ITEM, shortened
from controller.api.wellknown import (
    API_VERSION,
    HASH_LABEL,
    INVALID_ANNOTATION,
    MIN_UPDATED_ANNOTATION,
    PARALLELISM_ANNOTATION,
    PRE_DOWNLOAD_DEFERRED,
    PREDOWNLOAD_WAIT_ANNOTATION,
    SERVICE_ACCOUNT_ANNOTATION,
    TIMEOUT_ANNOTATION,
)
from controller.planner.budget import budget_of
from controller.planner.current_revision import of_template, stored_current
from controller.planner.eligibility import Rules
from controller.planner.manifest import owner_reference
from controller.planner.step import Note

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
