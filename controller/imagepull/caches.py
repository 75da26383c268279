"""Reads what passes over jobs need: from stores, and from the server where no cache is kept."""

from __future__ import annotations

from controller.api.base import Value
from controller.api.daemonset import DaemonSet
from controller.api.image_pull_job import ImagePullJob
from controller.api.meta import Key
from controller.api.node import Node
from controller.api.pod import PodView
from controller.api.puller import Puller
from controller.api.selector import LabelSelector, as_text
from controller.daemonset.caches import Caches
from controller.imagepull.wanted_jobs import old_pods
from controller.kube.client import Client
from controller.kube.decode import Seen
from controller.kube.resource import Resource
from controller.runtime.store import Store


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
    async for page in client.apart().pages(RUNNING_PODS, namespace, query=query):
        found.update(item.obj for item in page.items if isinstance(item, Seen) and item.obj is not None)
    return frozenset(found)
