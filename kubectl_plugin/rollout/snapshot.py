"""What was read at one moment: a DaemonSet, its pods, revisions and image pulls, and the nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from controller.api.daemonset import DaemonSet
from controller.api.image_pull_job import ImagePullJob, ImagePullJobStatus, Puller, PullState
from controller.api.node import Node
from controller.api.objects import JSONObject, Key, OwnerReference, Value, fields_of, items_of, rfc3339
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.planner.conditions import some


class PullStage(StrEnum):
    """The stage of an image pull on a node, worst first."""

    FAILED = "failed"
    PULLING = "pulling"
    WAITING = "waiting"
    THERE = "image there"


class NodePull(Value):
    stage: PullStage
    why: str = ""
    """The registry's last answer, as the kubelet reports it."""

    def __str__(self) -> str:
        return f"{self.stage}: {self.why}" if self.why else str(self.stage)


THERE: Final = NodePull(stage=PullStage.THERE)


class PullProgress(Value, gc=True):
    """The progress of an ImagePullJob per node. Its status has only counts and failed nodes; the rest is inferred
    from pullers, images reported by kubelets, and the node order."""

    job: ImagePullJob
    nodes: Sequence[str]
    """In the order in which they get the image."""
    pullers: tuple[Puller, ...] = ()
    having: Collection[str] = ()
    """Nodes known to have the image."""
    joined: Collection[str] = ()
    """Nodes younger than the job, which its status may not count yet."""
    words: Mapping[str, str] = {}
    """The last error of each node."""

    @property
    def status(self) -> ImagePullJobStatus:
        return self.job.status or ImagePullJobStatus()

    @property
    def over(self) -> bool:
        return self.status.completion_time is not None

    @property
    def refusal(self) -> str:
        """The server's reason for refusing pullers; empty if it accepts them."""
        status = self.status
        words = status.message.partition("; ")[2]
        of_a_node = words.partition(": ")[0] in (status.failed_nodes or ())
        return "" if self.over or of_a_node else words

    @property
    def counts(self) -> PullCounts:
        """Nodes by stage; without the right to list nodes, the counts of the job's status."""
        if self.nodes:
            return counts_of(self.by_node().values())
        status = self.status
        return PullCounts(nodes=status.desired, there=status.succeeded, pulling=status.active, failed=status.failed)

    def by_node(self) -> Mapping[str, NodePull]:
        status = self.status
        failed = set(status.failed_nodes or ())
        if self.over:
            return {node: self._failed(node) if node in failed else THERE for node in self.nodes or failed}
        mine = {puller.node: puller for puller in self.pullers if puller.job_uid == self.job.uid}
        there = {*self.having, *(node for node, one in mine.items() if one.state is PullState.SUCCEEDED)}
        pulls = {node: self._now(node, failed, mine, there) for node in self.nodes}
        # a node that has left the job, such as one updated meanwhile, had its turn; in doubt one more has left
        left = max(status.desired - sum(node not in self.joined for node in self.nodes), 0)
        unseen = status.succeeded - left - sum(pull.stage is PullStage.THERE for pull in pulls.values())
        waiting = [node for node, one in pulls.items() if one.stage is PullStage.WAITING and node not in self.joined]
        for node in waiting[: max(unseen, 0)]:
            pulls[node] = THERE
        return pulls

    def _now(
        self, node: str, failed: Collection[str], pullers: Mapping[str, Puller], there: Collection[str]
    ) -> NodePull:
        if node in there:
            return THERE
        if node in failed:
            return self._failed(node)
        if (puller := pullers.get(node)) is not None:
            return NodePull(stage=PullStage.PULLING, why=puller.why or self.words.get(node, ""))
        return NodePull(stage=PullStage.WAITING, why=self.words.get(node, ""))

    def _failed(self, node: str) -> NodePull:
        words = self.words.get(node, "")
        reported = self.status.message.partition(f"; {node}: ")[2]
        return NodePull(stage=PullStage.FAILED, why=words or reported or f"see ImagePullJob {self.job.name}")


def worst_pulls(pulls: Iterable[PullProgress]) -> Mapping[str, NodePull]:
    """Several pulls as one: a node needs all images, so the worst stage counts."""
    worst: dict[str, NodePull] = {}
    order = list(PullStage)
    for pull in pulls:
        for node, found in pull.by_node().items():
            known = worst.get(node)
            if known is None or order.index(found.stage) < order.index(known.stage):
                worst[node] = found
    return worst


class PullCounts(Value, rename="camel"):
    nodes: int
    there: int
    pulling: int
    failed: int

    def words(self, what: str = "nodes") -> str:
        """`image there on 3 of 8 nodes, pulling on 2, failed on 1`."""
        counts = ((PullStage.PULLING, self.pulling), (PullStage.FAILED, self.failed))
        others = (f"{stage} on {count}" for stage, count in counts if count)
        return ", ".join((f"{PullStage.THERE} on {self.there} of {self.nodes} {what}", *others))


def counts_of(found: Iterable[NodePull]) -> PullCounts:
    stages = Counter(one.stage for one in found)
    there, pulling, failed = (stages[one] for one in (PullStage.THERE, PullStage.PULLING, PullStage.FAILED))
    return PullCounts(nodes=stages.total(), there=there, pulling=pulling, failed=failed)


def failure_lines(found: Mapping[str, NodePull]) -> list[str]:
    """`failed on a-01, a-02: ErrImagePull: …`; nodes with the same error share a line."""
    nodes: dict[str, list[str]] = {}
    for node, one in sorted(found.items()):
        if one.stage is PullStage.FAILED:
            nodes.setdefault(one.why, []).append(node)
    return [f"{PullStage.FAILED} on {some(names)}: {why}" for why, names in nodes.items()]


CHANGE_CAUSE: Final = "kubernetes.io/change-cause"
"""kubectl's annotation; the controller copies it to the revision of its template."""
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""kubectl's copy of the manifest, from which the next apply sees which fields were dropped."""


class Container(Value):
    name: str
    ready: bool
    restarts: int
    waiting: str
    """Why it waits, such as CrashLoopBackOff, or empty."""
    message: str
    """The message of `waiting`, else of the last termination."""
    exit_code: int | None
    """Exit code of the present or last termination; None without one."""
    ended: str
    """Reason of that termination, such as Error or OOMKilled."""


class PodDetail(Value):
    pod: Pod
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    reason: str = ""
    """`status.reason`, such as Evicted."""
    message: str = ""
    unschedulable: str = ""
    """The scheduler's message while no node fits."""
    updated: float | None = None
    """The last update in place, in seconds since 1970."""
    replaced: frozenset[str] = frozenset()
    """Containers that wait after an update in place ended their predecessor."""

    @property
    def document(self) -> JSONObject:
        return {
            "name": self.pod.name,
            "ready": self.pod.ready,
            "readyContainers": self.ready_containers,
            "containers": len(self.containers),
            "restarts": self.restarts,
            "createdAt": rfc3339(self.pod.created),
            "hash": self.pod.hash,
        }

    @property
    def all_containers(self) -> tuple[Container, ...]:
        """Init containers first: the others wait for them."""
        return (*self.init_containers, *self.containers)

    @property
    def restarts(self) -> int:
        return sum(container.restarts for container in self.containers)

    @property
    def ready_containers(self) -> int:
        return sum(container.ready for container in self.containers)


class RevisionDetail(Value):
    revision: Revision
    created: float
    """Seconds since 1970. A rollback renumbers the revision, but keeps this time."""
    change_cause: str


class Unread(Value):
    what: str
    why: str = ""
    """The error; empty if the right to list the kind is missing."""

    @property
    def is_forbidden(self) -> bool:
        return not self.why

    @property
    def words(self) -> str:
        """`nodes: forbidden`."""
        return f"{self.what}: {self.why or 'forbidden'}"


class Snapshot(Value):
    daemonset: DaemonSet
    document: JSONObject
    owners: tuple[OwnerReference, ...]
    revisions: tuple[RevisionDetail, ...]
    """Revisions the DaemonSet controls, highest number first."""
    pods: tuple[PodDetail, ...]
    nodes: tuple[Node, ...] | None
    """All nodes, by name; None if unreadable."""
    now: float
    """When it was read, in seconds since 1970 by the server's clock."""
    pulls: tuple[PullProgress, ...] = ()
    """Readable ImagePullJobs for the newest revision."""
    unread: tuple[Unread, ...] = ()
    unmapped: Mapping[str, str] = {}
    """By pod uid: why the previewed update in place would undo an admission change."""
    unasked: frozenset[str] = frozenset()
    """uids of pods changed at admission if the server did not say whether that would be undone."""

    @property
    def pods_readable(self) -> bool:
        """If false, `pods` is empty."""
        return self.unread_of("pods") is None

    @property
    def revisions_readable(self) -> bool:
        """If false, `revisions` is empty."""
        return self.unread_of("controllerrevisions") is None

    @property
    def unread_words(self) -> tuple[str, ...]:
        return tuple(one.words for one in self.unread)

    def unread_of(self, what: str) -> Unread | None:
        return next((one for one in self.unread if one.what == what), None)

    @property
    def key(self) -> Key:
        return self.daemonset.key


_DIGEST_DIGITS: Final = 7
"""Number of digits shown of a digest, as in git."""


def images_of(template: JSONObject) -> dict[str, str]:
    """Image by container name, in template order, init containers last. Incomplete entries are omitted."""
    spec = fields_of(template.get("spec"))
    containers = (item for field in ("containers", "initContainers") for item in items_of(spec.get(field)))
    named = ((container.get("name"), container.get("image")) for container in containers)
    return {name: image for name, image in named if isinstance(name, str) and isinstance(image, str)}


def short_image(image: str) -> str:
    """`agent:1.9.0` for `registry.example.com:5000/team/agent:1.9.0`; `agent@4f5c1a2` for a digest."""
    name, _, digest = " ".join(image.split()).partition("@")  # the server accepts line breaks
    last = name.rpartition("/")[2]
    return f"{last}@{_digest_digits(digest)}" if digest else last


def image_change(old: str, new: str) -> tuple[str, str]:
    """Tags or digests that distinguish the images, else short names; full names if repositories differ."""
    (home, before), (other_home, after) = _split_image(old), _split_image(new)
    if home == other_home and before and after and before != after:
        return before, after
    return short_beside(old, new), short_beside(new, old)


def short_beside(image: str, other: str) -> str:
    """The short name if `other` has the same repository but another short name; else the full name."""
    short = short_image(image)
    return short if _split_image(image)[0] == _split_image(other)[0] and short != short_image(other) else image


def _split_image(image: str) -> tuple[str, str]:
    name, _, digest = image.partition("@")
    folder, slash, last = name.rpartition("/")
    last, _, tag = last.partition(":")
    version = f"{tag}@{_digest_digits(digest)}" if digest and tag else _digest_digits(digest) or tag
    return f"{folder}{slash}{last}", version


def _digest_digits(digest: str) -> str:
    return digest.rpartition(":")[2][:_DIGEST_DIGITS]
