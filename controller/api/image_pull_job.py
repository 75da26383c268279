"""ImagePullJob: an image that nodes should have before a pod needs it. The view that is decoded, the record that is
cached, and the nodes of a job.

Puller pods: the view, the record, and what each reports about its one image.

A puller runs nothing, because its command does not exist: the kubelet pulls the image, creates the container and
fails to start it. That is success: docs/design/kubelet.md#a-pod-that-only-pulls.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from sys import intern
from typing import Final

from controller.api.containers import ContainerStateView, ContainerStatusView, WaitingView, canonical
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
"""The defaults of OpenKruise: seconds for one attempt, retries, and nodes at a time."""
VIRTUAL = ("type", "virtual-kubelet")
"""Label of virtual nodes, where no machine can keep an image."""


class NodeSelector(LabelSelector):
    """Selects nodes by name, or by label."""

    names: tuple[str, ...] | None = None


class PullPolicy(View):
    timeout_seconds: int | None = None
    backoff_limit: int | None = None


class CompletionPolicy(View):
    type: str = ALWAYS
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None


class SandboxConfig(View):
    """Labels and annotations of the pullers, for runtimes and image accelerators that read them."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class ImagePullJobSpec(View):
    image: str
    pull_secrets: tuple[str, ...] | None = None
    selector: NodeSelector | None = None
    pod_selector: LabelSelector | None = None
    """Selects the nodes of these pods in the namespace of the job; then `selector` is not used."""
    parallelism: IntOrPercent | None = None
    pull_policy: PullPolicy = PullPolicy()
    completion_policy: CompletionPolicy = CompletionPolicy()
    image_pull_policy: str = ""
    sandbox_config: SandboxConfig = SandboxConfig()

    @property
    def timeout(self) -> int:
        """Seconds for one attempt on one node."""
        asked = self.pull_policy.timeout_seconds
        return TIMEOUT_SECONDS if asked is None else asked

    @property
    def retries(self) -> int:
        asked = self.pull_policy.backoff_limit
        return BACKOFF_LIMIT if asked is None else asked

    @property
    def never_completes(self) -> bool:
        """Whether it never completes, so that later nodes get the image too."""
        return self.completion_policy.type == NEVER

    @property
    def always_pulls(self) -> bool:
        """Whether nodes that have the image ask the registry for a newer one."""
        return self.image_pull_policy == ALWAYS

    def at_once(self, nodes: int) -> int:
        """On how many of `nodes` nodes the image is pulled at a time."""
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
    """A job as the API server sends it."""

    metadata: ObjectMeta
    spec: ImagePullJobSpec
    status: ImagePullJobStatus | None = None


class ImagePullJob(NamespacedObject):
    """A job as it is cached."""

    owner_uid: str
    """The uid of the Advanced DaemonSet whose rollout created it; empty: somebody else did."""
    hash: str
    """The hash of the revision for which it was created; empty: for none."""
    service_account: str
    """The ServiceAccount whose pull secrets are used if `spec` names none; empty: the account `default`."""
    generation: int
    terminating: bool
    spec: ImagePullJobSpec
    status: ImagePullJobStatus | None
    """None: nobody has written one yet."""
    matches: Matcher
    """Whether `selector` chooses a node with these labels, apart from names."""

    @property
    def is_orphaned(self) -> bool:
        """Whether its DaemonSet was deleted with `--cascade=orphan`. Nobody else would delete the job, and one of the
        same name may be needed again."""
        return bool(self.hash) and not self.owner_uid


def project(view: ImagePullJobView) -> ImagePullJob:
    """The record of a job. Raises ValueError if the spec cannot be used."""
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
    """The owner reference to the job of a pod; None: it has no job."""
    owners = (one for one in meta.owner_references or () if one.controller)
    return next((one for one in owners if one.kind == JOB_KIND and one.group == GROUP), None)


class Targets(Value, gc=True):
    """The nodes of a job, in order of update: by name, descending."""

    nodes: Sequence[str] = ()
    not_ready: frozenset[str] = frozenset()
    """Nodes on which no pod starts now."""
    with_image: frozenset[str] = frozenset()
    """Nodes whose kubelet reports that it has the image."""


def keeps_images(node: Node) -> bool:
    key, value = VIRTUAL
    return node.labels.get(key) != value


def targets(
    job: ImagePullJob,
    nodes: Iterable[Node],
    with_pods: Collection[str] | None,
    updated: LabelSelector | None = None,
) -> Targets:
    """The nodes of a job. `with_pods` are the nodes of the pods that its podSelector chooses; None: it has no
    podSelector. `updated` selects the nodes that the rollout of the job updates: these come first. None: all."""
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
        nodes=[node.name for node in sorted(chosen, key=lambda one: (first(one.labels), one.name), reverse=True)],
        not_ready=frozenset(node.name for node in chosen if node.silent),
        with_image=frozenset(node.name for node in chosen if not job.spec.always_pulls and image in node.images),
    )


PULLER_LABEL: Final = "kruise-ds/image-pull-job"
"""Label of every puller: the uid of its job."""
MANAGED: Final = {"app.kubernetes.io/managed-by": "kruise-ds"}
"""Labels of every puller. They identify a puller whose owner reference was removed."""
CONTAINER: Final = "pull"

NOT_PULLED: Final = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
PULLED_REASONS: Final = frozenset(
    {
        "RunContainerError",
        "CreateContainerError",
        "CreateContainerConfigError",
        "PreCreateHookError",
        "CrashLoopBackOff",
    }
)
"""Waiting reasons that prove that the image is on the node. A container of an image without any program keeps one of
them for ever."""
LONGEST_WHY: Final = 500
"""Characters of the message of the kubelet; the answer of the registry is at its end."""
LOST: Final = "ContainerStatusUnknown"
"""The reason in the status of a container whose end the kubelet did not see."""


class PullState(StrEnum):
    ACTIVE = "pulling"
    SUCCEEDED = "pulled"
    FAILED = "failed"


class Puller(NamespacedObject):
    """A puller as it is cached."""

    job: str
    """The name of its job, in its own namespace; empty: it has lost its owner."""
    job_uid: str
    node: str
    image: str
    """What its container pulls: admission may have changed what the job asked for."""
    terminating: bool
    state: PullState
    why: str
    """What is wrong, in the words of the kubelet or the scheduler; empty: nothing."""


def project_puller(view: PodView) -> Puller | None:
    meta, owner = view.metadata, job_of(view.metadata) or _nobody(view.metadata)
    if owner is None:
        return None
    state, why = _progress(view.status)
    return Puller(
        namespace=intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        job=owner.name,
        job_uid=intern(owner.uid),
        node=intern(target_node(view.spec)),
        image=intern(next((one.image for one in view.spec.containers or () if one.name == CONTAINER), "")),
        terminating=meta.deletion_timestamp is not None,
        state=state,
        why=truncated(why, LONGEST_WHY),
    )


def _nobody(meta: ObjectMeta) -> OwnerReference | None:
    """An empty reference for an orphaned puller, as after `kubectl delete --cascade=orphan`; None for other pods."""
    owned = any(owner.controller for owner in meta.owner_references or ())
    ours = (meta.labels or {}).items() >= MANAGED.items()
    return OwnerReference() if ours and not owned else None


def _progress(status: PodStatusView) -> tuple[PullState, str]:
    one = next((one for one in status.container_statuses or () if one.name == CONTAINER), ContainerStatusView())
    state, last = one.state or ContainerStateView(), one.last_state or ContainerStateView()
    waiting, ended = state.waiting or WaitingView(), state.terminated or last.terminated
    if one.image_id or waiting.reason in PULLED_REASONS or (ended is not None and ended.reason != LOST):
        return PullState.SUCCEEDED, ""
    if waiting.reason in NOT_PULLED:
        return PullState.FAILED, _words(waiting.reason, waiting.message)
    if status.phase in ("Failed", "Succeeded"):
        return PullState.FAILED, _words(status.reason or "the pod ended", status.message)
    unscheduled = any(one.type == "PodScheduled" and one.status == "False" for one in status.conditions or ())
    return PullState.ACTIVE, "the scheduler has not bound the pod" if unscheduled else ""


def _words(reason: str, message: str) -> str:
    line = " ".join(message.split())
    return f"{reason}: {line}" if line else reason
