"""ImagePullJobs, their nodes, and puller pods. The command of a puller does not exist: the kubelet pulls the image,
and then fails to start the container, which is success (docs/design/kubelet.md#a-pod-that-only-pulls)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from sys import intern
from typing import Final

from controller.api.containers import ContainerStatusView, canonical
from controller.api.formats import IntOrPercent, is_well_formed, scaled, truncated
from controller.api.names import GROUP, HASH_LABEL, SERVICE_ACCOUNT_ANNOTATION
from controller.api.node import Node
from controller.api.objects import NamespacedObject, ObjectMeta, OwnerReference, Part, Value, View, ownership_of
from controller.api.pod import PodStatusView, PodView, target_node
from controller.api.selector import LabelSelector, Matcher, parse

JOB_KIND = "ImagePullJob"

ALWAYS = "Always"
NEVER = "Never"
TIMEOUT_SECONDS = 600
BACKOFF_LIMIT = 3
PARALLELISM = 1
"""OpenKruise's defaults: seconds per attempt, retries, and nodes at a time."""


class NodeSelector(LabelSelector):
    names: tuple[str, ...] | None = None


class PullPolicy(View):
    timeout_seconds: int | None = None
    backoff_limit: int | None = None


class CompletionPolicy(View):
    type: str = ALWAYS
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None


class SandboxConfig(View):
    """Labels and annotations for pullers, read by runtimes and image accelerators."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class ImagePullJobSpec(View):
    image: str
    pull_secrets: tuple[str, ...] | None = None
    selector: NodeSelector | None = None
    pod_selector: LabelSelector | None = None
    """Selects the nodes of these pods in the job's namespace; `selector` is then ignored."""
    parallelism: IntOrPercent | None = None
    pull_policy: PullPolicy = PullPolicy()
    completion_policy: CompletionPolicy = CompletionPolicy()
    image_pull_policy: str = ""
    sandbox_config: SandboxConfig = SandboxConfig()

    @property
    def timeout(self) -> int:
        """Seconds per attempt and node."""
        asked = self.pull_policy.timeout_seconds
        return TIMEOUT_SECONDS if asked is None else asked

    @property
    def retries(self) -> int:
        asked = self.pull_policy.backoff_limit
        return BACKOFF_LIMIT if asked is None else asked

    @property
    def never_completes(self) -> bool:
        """Whether the job keeps running, to pull the image on new nodes."""
        return self.completion_policy.type == NEVER

    @property
    def always_pulls(self) -> bool:
        """Whether nodes pull the image even if they have one of this name."""
        return self.image_pull_policy == ALWAYS

    def at_once(self, nodes: int) -> int:
        return scaled(PARALLELISM if self.parallelism is None else self.parallelism, nodes, round_up=True)


class ImagePullJobStatus(Part):
    desired: int = 0
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    failed_nodes: tuple[str, ...] | None = None
    message: str = ""
    start_time: str | None = None
    completion_time: str | None = None


class ImagePullJobView(View):
    metadata: ObjectMeta
    spec: ImagePullJobSpec
    status: ImagePullJobStatus | None = None


class ImagePullJob(NamespacedObject):
    owner_uid: str
    """The uid of the Advanced DaemonSet whose rollout created it; empty if none did."""
    hash: str
    """The revision hash for which it was created; empty if none."""
    service_account: str
    """The ServiceAccount whose pull secrets are used if `spec` names none; empty means `default`."""
    generation: int
    terminating: bool
    spec: ImagePullJobSpec
    status: ImagePullJobStatus | None
    matches: Matcher

    @property
    def is_orphaned(self) -> bool:
        """Whether its DaemonSet was deleted with `--cascade=orphan`; such a job is deleted to free its name."""
        return bool(self.hash) and not self.owner_uid


def project(view: ImagePullJobView) -> ImagePullJob:
    """Raises ValueError if the spec cannot be used."""
    meta, spec = view.metadata, view.spec
    if spec.parallelism is not None and not is_well_formed(spec.parallelism):
        raise ValueError(f"parallelism {spec.parallelism!r} is neither a whole number nor a percentage")
    owner = ownership_of(meta)
    return ImagePullJob(
        namespace=intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        owner_uid=owner.uid if owner is not None else "",
        hash=(meta.labels or {}).get(HASH_LABEL, ""),
        service_account=(meta.annotations or {}).get(SERVICE_ACCOUNT_ANNOTATION, ""),
        generation=meta.generation,
        terminating=meta.deletion_timestamp is not None,
        spec=spec,
        status=view.status,
        matches=parse(spec.selector or LabelSelector()),
    )


def job_of(meta: ObjectMeta) -> OwnerReference | None:
    for reference in meta.owner_references or ():
        if reference.controller and reference.kind == JOB_KIND and reference.group == GROUP:
            return reference
    return None


class Targets(Value, gc=True):
    """The nodes of a job in update order: by name, descending."""

    nodes: Sequence[str] = ()
    not_ready: frozenset[str] = frozenset()
    with_image: frozenset[str] = frozenset()
    """Nodes whose kubelet reports that they have the image."""


def keeps_images(node: Node) -> bool:
    """Whether the node is not virtual: a virtual node has no machine to keep an image."""
    return node.labels.get("type") != "virtual-kubelet"


def targets(
    job: ImagePullJob,
    nodes: Iterable[Node],
    with_pods: Collection[str] | None,
    updated: LabelSelector | None = None,
) -> Targets:
    """The nodes of a job. `with_pods` are those of the pods that podSelector selects (None without podSelector).
    Nodes that `updated` selects, which the job's rollout updates, come first (None means all)."""
    names = set(with_pods) if with_pods is not None else None
    if names is None and job.spec.selector is not None and job.spec.selector.names:
        names = set(job.spec.selector.names)
    chosen = [
        node
        for node in nodes
        if (names is None or node.name in names) and job.matches(node.labels) and keeps_images(node)
    ]
    image = canonical(job.spec.image)
    first = parse(updated or LabelSelector())
    return Targets(
        nodes=[node.name for node in sorted(chosen, key=lambda node: (first(node.labels), node.name), reverse=True)],
        not_ready=frozenset(node.name for node in chosen if node.not_ready),
        with_image=frozenset(node.name for node in chosen if not job.spec.always_pulls and image in node.images),
    )


PULLER_LABEL: Final = "kruise-ds/image-pull-job"
"""On every puller: the uid of its job."""
MANAGED: Final = {"app.kubernetes.io/managed-by": "kruise-ds"}
"""On every puller, to recognize one whose owner reference was removed."""
CONTAINER: Final = "pull"

_NOT_PULLED: Final = frozenset(
    [
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    ]
)
_PULLED: Final = frozenset(
    [
        "RunContainerError",
        "CreateContainerError",
        "CreateContainerConfigError",
        "PreCreateHookError",
        "CrashLoopBackOff",
    ]
)
"""Waiting reasons that prove that the image was pulled. A container whose image has no program keeps one forever."""
_MOST_WHY: Final = 500
"""Characters of the kubelet's message; the registry's answer is at its end."""


class PullState(StrEnum):
    ACTIVE = "pulling"
    SUCCEEDED = "pulled"
    FAILED = "failed"


class Puller(NamespacedObject):
    job: str
    """Empty if the puller has lost its owner."""
    job_uid: str
    node: str
    image: str
    """As in its container; admission may have changed that of the job."""
    terminating: bool
    state: PullState
    why: str


def project_puller(view: PodView) -> Puller | None:
    """The record of a puller, orphaned or not; None for any other pod."""
    meta = view.metadata
    owner = job_of(meta)
    if owner is None:
        if not (meta.labels or {}).items() >= MANAGED.items() or any(
            reference.controller for reference in meta.owner_references or ()
        ):
            return None
        owner = OwnerReference()
    state, why = _progress(view.status)
    return Puller(
        namespace=intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        job=owner.name,
        job_uid=intern(owner.uid),
        node=intern(target_node(view.spec)),
        image=intern(
            next((container.image for container in view.spec.containers or () if container.name == CONTAINER), "")
        ),
        terminating=meta.deletion_timestamp is not None,
        state=state,
        why=truncated(why, _MOST_WHY),
    )


def _progress(status: PodStatusView) -> tuple[PullState, str]:
    container = next(
        (container for container in status.container_statuses or () if container.name == CONTAINER),
        ContainerStatusView(),
    )
    waiting, ended = container.waiting, container.ended
    lost = ended is not None and ended.reason == "ContainerStatusUnknown"  # the kubelet did not see its end
    if container.image_id or waiting.reason in _PULLED or (ended is not None and not lost):
        return PullState.SUCCEEDED, ""
    if waiting.reason in _NOT_PULLED:
        return PullState.FAILED, _message(waiting.reason, waiting.message)
    if status.phase in ("Failed", "Succeeded"):
        return PullState.FAILED, _message(status.reason or "the pod ended", status.message)
    unscheduled = any(
        condition.type == "PodScheduled" and condition.status == "False" for condition in status.conditions or ()
    )
    return PullState.ACTIVE, "the scheduler has not bound the pod" if unscheduled else ""


def _message(reason: str, message: str) -> str:
    return f"{reason}: {' '.join(message.split())}" if message.strip() else reason
