"""What was read at one moment: a DaemonSet, its pods and revisions, and the nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controller.api.daemonset import DaemonSet
from controller.api.node import Node
from controller.api.objects import JSONObject, Key, OwnerReference, Value, rfc3339
from controller.api.pod import Pod
from controller.api.revision import Revision
from kubectl_plugin.report.pulls import PullProgress

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
