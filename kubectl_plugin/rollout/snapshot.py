"""What was read at one moment: a DaemonSet, its pods, revisions and image pulls, and the nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from controller.api.daemonset import DaemonSet
from controller.api.image_pull_job import ImagePullJob, ImagePullJobStatus, Puller, PullState
from controller.api.node import Node
from controller.api.objects import JSONObject, Key, OwnerReference, Value, rfc3339
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.planner.conditions import some


class PullStage(StrEnum):
    """How far the pull of an image is on a node; from the worst stage to the best."""

    FAILED = "failed"
    PULLING = "pulling"
    WAITING = "waiting"
    THERE = "image there"


class NodePull(Value):
    stage: PullStage
    why: str = ""
    """What the registry answered last, in the kubelet's words."""

    def __str__(self) -> str:
        return f"{self.stage}: {self.why}" if self.why else str(self.stage)


THERE: Final = NodePull(stage=PullStage.THERE)


class PullProgress(Value, gc=True):
    """The progress of one ImagePullJob on each node. The job's status has counts, and the names of nodes on which it
    has failed; the rest follows from its pullers, the images that kubelets report, and the order of the nodes."""

    job: ImagePullJob
    nodes: Sequence[str]
    """The nodes that should have the image, in the order in which they get it."""
    pullers: tuple[Puller, ...] = ()
    having: Collection[str] = ()
    """The nodes that are known to have the image."""
    joined: Collection[str] = ()
    """Those of `nodes` that are younger than the job: its status may not count them yet."""
    words: Mapping[str, str] = {}
    """The newest error message of each node on which an attempt has failed."""

    @property
    def status(self) -> ImagePullJobStatus:
        return self.job.status or ImagePullJobStatus()

    @property
    def over(self) -> bool:
        return self.status.completion_time is not None

    @property
    def refusal(self) -> str:
        """Why no puller can be created, in the server's words; empty if one can."""
        status = self.status
        words = status.message.partition("; ")[2]
        of_a_node = words.partition(": ")[0] in (status.failed_nodes or ())
        return "" if self.over or of_a_node else words

    def by_node(self) -> Mapping[str, NodePull]:
        status = self.status
        failed = set(status.failed_nodes or ())
        if self.over:
            return {node: self._failed(node) if node in failed else THERE for node in self.nodes or failed}
        mine = {one.node: one for one in self.pullers if one.job_uid == self.job.uid}
        there = {*self.having, *(node for node, one in mine.items() if one.state is PullState.SUCCEEDED)}
        told = {node: self._now(node, failed, mine, there) for node in self.nodes}
        # a node that has left the job, such as one updated meanwhile, had its turn; in doubt one more has left
        left = max(status.desired - sum(node not in self.joined for node in self.nodes), 0)
        unseen = status.succeeded - left - sum(one.stage is PullStage.THERE for one in told.values())
        waiting = [node for node, one in told.items() if one.stage is PullStage.WAITING and node not in self.joined]
        for node in waiting[: max(unseen, 0)]:
            told[node] = THERE
        return told

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
        heard = self.words.get(node, "")
        told = self.status.message.partition(f"; {node}: ")[2]
        return NodePull(stage=PullStage.FAILED, why=heard or told or f"see ImagePullJob {self.job.name}")


def worst_pulls(pulls: Iterable[PullProgress]) -> Mapping[str, NodePull]:
    """The pulls of several images as one: a node needs all of them, so the worst stage counts."""
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


def stated_counts(status: ImagePullJobStatus) -> PullCounts:
    """The number of nodes in each stage by the job's own status, for users who may not list nodes."""
    return PullCounts(nodes=status.desired, there=status.succeeded, pulling=status.active, failed=status.failed)


def failure_lines(found: Mapping[str, NodePull]) -> list[str]:
    """Such as `failed on a-01, a-02: ErrImagePull: …`; nodes with the same error share a line."""
    nodes: dict[str, list[str]] = {}
    for node, one in sorted(found.items()):
        if one.stage is PullStage.FAILED:
            nodes.setdefault(one.why, []).append(node)
    return [f"{PullStage.FAILED} on {some(names)}: {why}" for why, names in nodes.items()]


CHANGE_CAUSE: Final = "kubernetes.io/change-cause"
"""kubectl's; the controller copies it to the revision of the template that it came with."""
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""kubectl's copy of the manifest. The next apply compares with it to see which fields the manifest no longer has."""


class Container(Value):
    """One container of a pod, by the pod's status."""

    name: str
    ready: bool
    restarts: int
    waiting: str
    """Why it waits, such as CrashLoopBackOff; empty while it does not wait."""
    message: str
    """The message of `waiting`, or else of its last end."""
    exit_code: int | None
    """The exit code of its present or last end; None if it has never ended."""
    ended: str
    """The reason of that end, such as Error or OOMKilled; empty if it has never ended."""


class PodDetail(Value):
    """A pod as the planner sees it, and the details that people read."""

    pod: Pod
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    reason: str = ""
    """`status.reason`, such as Evicted."""
    message: str = ""
    unschedulable: str = ""
    """The scheduler's words while it finds no node for the pod."""
    updated: float | None = None
    """Seconds since 1970 of the last update in place; None if there was none."""
    replaced: frozenset[str] = frozenset()
    """Names of containers that wait after an update in place has ended the former one."""

    @property
    def document(self) -> JSONObject:
        """The pod as `nodes -o json` prints it."""
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
        return sum(one.restarts for one in self.containers)

    @property
    def ready_containers(self) -> int:
        return sum(one.ready for one in self.containers)


class RevisionDetail(Value):
    """A stored revision, and what `history` shows of it."""

    revision: Revision
    created: float
    """Seconds since 1970. After a rollback the revision has a new number, but keeps this time."""
    change_cause: str
    """Value of the annotation `CHANGE_CAUSE`; empty without it."""


class Unread(Value):
    """A kind of object that could not be listed."""

    what: str
    """Plural name of the kind."""
    why: str = ""
    """What went wrong; empty if the right to list that kind is missing."""

    @property
    def is_forbidden(self) -> bool:
        return not self.why

    @property
    def words(self) -> str:
        """Such as `nodes: forbidden`."""
        return f"{self.what}: {self.why or 'forbidden'}"


class Snapshot(Value):
    """Everything that a report is made from, read at one moment."""

    daemonset: DaemonSet
    document: JSONObject
    """The DaemonSet as the server sent it, whole."""
    owners: tuple[OwnerReference, ...]
    """Who owns the DaemonSet itself, such as an operator's object."""
    revisions: tuple[RevisionDetail, ...]
    """The revisions that the DaemonSet controls, the highest number first."""
    pods: tuple[PodDetail, ...]
    """The pods that the DaemonSet controls."""
    nodes: tuple[Node, ...] | None
    """All nodes, by name; None if they could not be read."""
    now: float
    """Seconds since 1970, by the server's clock: when it was read."""
    pulls: tuple[PullProgress, ...] = ()
    """The ImagePullJobs for the newest revision, as far as they may be read."""
    unread: tuple[Unread, ...] = ()
    """What could not be read, and why."""
    unmapped: Mapping[str, str] = {}
    """Why the update in place that is previewed would undo what admission did to a pod at its creation, by its
    uid."""
    unasked: frozenset[str] = frozenset()
    """uids of pods that admission has changed, and of which the server did not tell this."""

    @property
    def pods_readable(self) -> bool:
        """Whether the pods could be read; if not, `pods` is empty."""
        return self.unread_of("pods") is None

    @property
    def revisions_readable(self) -> bool:
        """Whether the revisions could be read; if not, `revisions` is empty."""
        return self.unread_of("controllerrevisions") is None

    @property
    def nodes_readable(self) -> bool:
        """Whether the nodes could be read."""
        return self.unread_of("nodes") is None

    @property
    def unread_words(self) -> tuple[str, ...]:
        return tuple(one.words for one in self.unread)

    def unread_of(self, what: str) -> Unread | None:
        return next((one for one in self.unread if one.what == what), None)

    @property
    def key(self) -> Key:
        return self.daemonset.key
