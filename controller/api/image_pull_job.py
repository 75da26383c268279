"""ImagePullJob: an image that nodes should have before a pod needs it. The view that is decoded, the record that is
cached, and the nodes of a job."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from sys import intern

from controller.api.base import Part, Value, View
from controller.api.image import canonical
from controller.api.meta import Named, ObjectMeta, OwnerReference, ownership_of
from controller.api.node import Node
from controller.api.number import IntOrPercent, is_well_formed, scaled
from controller.api.selector import LabelSelector, Matcher, parse
from controller.api.wellknown import GROUP, HASH_LABEL, SERVICE_ACCOUNT_ANNOTATION

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
    def keeps_on(self) -> bool:
        """Whether it never completes, so that later nodes get the image too."""
        return self.completion_policy.type == NEVER

    @property
    def asks_registry(self) -> bool:
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


class ImagePullJob(Named):
    """A job as it is cached."""

    owner_uid: str
    """The uid of the Advanced DaemonSet whose rollout created it; empty: somebody else did."""
    hash: str
    """The hash of the revision for which it was created; empty: for none."""
    service_account: str
    """The ServiceAccount whose pull secrets are used if `spec` names none; empty: the account `default`."""
    generation: int
    dying: bool
    spec: ImagePullJobSpec
    status: ImagePullJobStatus | None
    """None: nobody has written one yet."""
    matches: Matcher
    """Whether `selector` chooses a node with these labels, apart from names."""

    @property
    def is_left_behind(self) -> bool:
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
        dying=meta.deletion_timestamp is not None,
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
    silent: frozenset[str] = frozenset()
    """Nodes on which no pod starts now."""
    having: frozenset[str] = frozenset()
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
        silent=frozenset(node.name for node in chosen if node.silent),
        having=frozenset(node.name for node in chosen if not job.spec.asks_registry and image in node.images),
    )
