"""The world from which a job is decided, and the plan that comes out.

Reads what passes over jobs need: from stores, and from the server where no cache is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import inf
from typing import Final, TypeAlias

from controller.api.daemonset import DaemonSet
from controller.api.image_pull_job import ImagePullJob, ImagePullJobStatus, Puller
from controller.api.node import Node
from controller.api.objects import Key, Ref, Value
from controller.api.pod import PodView
from controller.api.selector import LabelSelector, as_text
from controller.imagepull.rollouts import old_pods
from controller.kube.client import Client
from controller.kube.decode import Seen
from controller.kube.requests import Resource
from controller.planner.actions import Note
from controller.reconcile.caches import Caches
from controller.runtime.store import Store

PULLED: Final = None
"""The result of a node that has the image; if pulling failed, the result is a text."""


class Try(Value):
    """A node where pulling has failed and will be tried again at `due` (`elapsed`)."""

    failures: int
    due: float
    why: str
    puller: str
    """The uid of the puller that failed last."""


class StartPuller(Value):
    node: str


class EndPuller(Value):
    pod: Ref


class DeleteJob(Value):
    job: Ref


JobAction: TypeAlias = StartPuller | EndPuller | DeleteJob


class JobWorld(Value, gc=True):
    job: ImagePullJob
    status: ImagePullJobStatus
    """The newest known status."""
    left: Mapping[str, None]
    """Nodes that should have the image and have no result yet, in order of update."""
    pulled: Collection[str]
    """Nodes that have the image."""
    failed: Mapping[str, str]
    """Nodes that have used up their attempts, with the reason."""
    again: Mapping[str, float]
    """When each failed node of a job that never completes is tried again (`elapsed`). A failed node that is missing
    here may be tried now."""
    silent: Collection[str]
    """Nodes on which no pod would start now."""
    tries: Mapping[str, Try]
    pullers: Sequence[Puller]
    since: Mapping[str, float]
    """When each puller was first seen (`elapsed`), by uid."""
    lost: Mapping[str, str]
    """Nodes whose puller is gone without our deleting it, or is on another node now; with the uid of the puller."""
    awaited: Collection[str]
    """Places where a write is not answered: nodes, and uids of pullers."""
    failing: Collection[str]
    """Places where the last write failed: nodes, and uids of pullers."""
    held_back: Collection[str]
    """Places in `failing` that may not be tried again yet."""
    silent_since: float
    """Since when only silent nodes are left (`elapsed`); `inf`: others are left too."""
    room: int
    """How many pullers may be created in this pass."""
    refusal: str
    """Why the server refuses pullers; empty: it does not."""
    now: float
    """The time of this pass (seconds since 1970)."""
    moment: float
    """The same time by `elapsed`, the clock of all durations."""

    @property
    def desired(self) -> int:
        return len(self.left) + len(self.pulled) + len(self.failed)

    @property
    def retried(self) -> Mapping[str, float]:
        """When each failed node is tried again; empty unless the job never completes."""
        return {node: self.again.get(node, -inf) for node in self.failed} if self.job.spec.keeps_on else {}


class JobPlan(Value, gc=True):
    actions: tuple[JobAction, ...]
    settled: Mapping[str, str | None]
    """The results of nodes that are done in this pass: `PULLED`, or why not."""
    tries: Mapping[str, Try]
    """Failed nodes that will be tried again."""
    status: ImagePullJobStatus
    only_silent: bool = False
    """Whether only silent nodes are left, which may come back."""
    wake_at: float = inf
    """When the next pass is needed even without an event (`elapsed`)."""
    notes: tuple[Note, ...] = ()


def may_end(world: JobWorld, puller: Puller) -> bool:
    """Whether the deletion of the puller should be requested now."""
    return not puller.dying and puller.uid not in world.awaited and puller.uid not in world.held_back


class JobCached(Value):
    """The state in the caches, at one moment, of one job or of the remains of a job that is gone."""

    fleet: int
    """The value of `JobCaches.fleet` at that moment."""
    nodes: tuple[Node, ...]
    pullers: tuple[Puller, ...]
    updated: LabelSelector | None
    """Selects the nodes that the rollout of the job updates; None: all."""


class JobCaches:
    def __init__(self, jobs: Store[ImagePullJob], pullers: Store[Puller], daemonsets: Caches) -> None:
        self.jobs, self.pullers, self.nodes, self._daemonsets = jobs, pullers, daemonsets.nodes, daemonsets
        self._by_job = pullers.index(lambda puller: Key(puller.namespace, puller.job))
        self.fleet = 0
        """A counter that changes whenever a node is added or removed, or its labels or taints change."""

    def unfinished(self) -> list[ImagePullJob]:
        return [job for job in self.jobs.values() if job.status is None or job.status.completion_time is None]

    def pullers_of(self, job: Key) -> tuple[Puller, ...]:
        """The pullers of the job with this key, also of one that is gone."""
        return tuple(self._by_job.get(job).values())

    def owner_of(self, job: ImagePullJob) -> DaemonSet | None:
        """The DaemonSet whose rollout created the job; None: no rollout did."""
        return self._daemonsets.daemonset_of(job)

    def nodes_of_rollout(self, job: ImagePullJob) -> frozenset[str] | None:
        """The nodes for which a rollout created the job; None: no rollout is known."""
        owner = self.owner_of(job)
        if owner is None or not job.hash:
            return None
        return frozenset(old_pods(self._daemonsets.pods_of(owner), job.hash))

    def snapshot(self, key: Key, job: ImagePullJob | None) -> JobCached:
        """The state of the job with this key in the caches; `job` is that job, if it exists."""
        owner = self.owner_of(job) if job is not None else None
        rolling = owner.rolling_update if owner is not None else None
        return JobCached(
            fleet=self.fleet,
            nodes=tuple(self.nodes.values()),
            pullers=self.pullers_of(key),
            updated=rolling.selector if rolling is not None else None,
        )


def _node(view: PodView) -> str | None:
    over = view.metadata.deletion_timestamp is not None or view.status.phase in ("Failed", "Succeeded")
    return None if over else view.spec.node_name or None


RUNNING_PODS = Resource(plural="pods", wire=PodView, project=_node)


async def nodes_of_pods(client: Client, namespace: str, chosen: LabelSelector) -> frozenset[str]:
    """The nodes where a pod with these labels runs or will run, whoever controls it. Raises ApiError."""
    query = () if chosen.empty else (("labelSelector", as_text(chosen)),)
    found: set[str] = set()
    async for page in client.with_reserved_permit().pages(RUNNING_PODS, namespace, query=query):
        found.update(item.obj for item in page.items if isinstance(item, Seen) and item.obj is not None)
    return frozenset(found)
