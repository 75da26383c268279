"""The stores with their indexes, and what is computed once per generation or revision of a DaemonSet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Protocol

from controller.api.daemonset import DaemonSet
from controller.api.image_pull_job import ImagePullJob, Puller
from controller.api.node import Node
from controller.api.objects import Key, Value
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.inplace.change import InPlaceChange, NotPossible, changes_to
from controller.kube.requests import DAEMONSETS, NODES, PODS, REVISIONS
from controller.planner.node_fit import Rules
from controller.planner.pod_template import PodRenderer
from controller.planner.revisions import placements_of
from controller.planner.validation import compiled
from controller.runtime.expectations import CacheProgress
from controller.runtime.store import Move, Store


class Cached(Value):
    reach: CacheProgress
    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    orphans: tuple[Pod, ...]
    """The pods of its namespace without a controller."""
    revisions: tuple[Revision, ...]
    orphan_revisions: tuple[Revision, ...]
    unreadable: str
    """Why a pod of the DaemonSet cannot be decoded; empty if all can."""


class Dependent(Protocol):
    @property
    def namespace(self) -> str: ...
    @property
    def owner_uid(self) -> str: ...


def owner_key(dependent: Dependent) -> tuple[str, str] | None:
    """Namespace and uid of the object's controller, the key of indexes by owner; None without a controller."""
    return (dependent.namespace, dependent.owner_uid) if dependent.owner_uid else None


def _is_placed_otherwise(old: Node | None, new: Node | None) -> bool:
    return old is None or new is None or not old.same_placement(new)


class Caches:
    """The stores of this process. Those of ImagePullJobs stay empty unless the feature gate is on."""

    def __init__(self, namespaces: Sequence[str] = ("",)) -> None:
        self.daemonsets, self.pods = Store[DaemonSet](namespaces), Store[Pod](namespaces)
        self.nodes, self.revisions = Store[Node](), Store[Revision](namespaces)
        self.jobs, self.pullers = Store[ImagePullJob](namespaces), Store[Puller](namespaces)
        self.stores: dict[str, Store[DaemonSet] | Store[Pod] | Store[Node] | Store[Revision]] = {
            DAEMONSETS.plural: self.daemonsets,
            PODS.plural: self.pods,
            NODES.plural: self.nodes,
            REVISIONS.plural: self.revisions,
        }
        """The stores that are always filled."""
        self._fleet: tuple[Node, ...] | None = None
        self.nodes.follow(self._forget_fleet, _is_placed_otherwise)
        self._by_uid = self.daemonsets.index(lambda ds: ds.uid)
        self._by_namespace = self.daemonsets.index(lambda ds: ds.namespace)
        self._pods_by_owner = self.pods.index(owner_key)
        self._pods_by_node = self.pods.index(lambda pod: pod.node if pod.owner_uid else None)
        self._orphans = self.pods.index(lambda pod: None if pod.owner_uid else pod.namespace)
        self._revisions_by_owner = self.revisions.index(owner_key)
        self._orphan_revisions = self.revisions.index(
            lambda revision: None if revision.owner_uid else revision.namespace
        )
        self._jobs_by_owner = self.jobs.index(owner_key)
        self._pullers_by_job = self.pullers.index(lambda puller: Key(puller.namespace, puller.job))

    @property
    def fleet(self) -> tuple[Node, ...]:
        """All nodes by name. The same object until a placement changes: compiled rules cache verdicts by identity."""
        if self._fleet is None:
            self._fleet = tuple(sorted(self.nodes.values(), key=lambda node: node.name))
        return self._fleet

    def snapshot(self, daemonset: DaemonSet) -> Cached:
        namespace = daemonset.namespace
        return Cached(
            reach=self.daemonsets.progress_in(namespace),
            nodes=self.fleet,
            pods=self.pods_of(daemonset),
            orphans=self._orphans.get(namespace),
            revisions=self.revisions_of(daemonset),
            orphan_revisions=self._orphan_revisions.get(namespace),
            unreadable=self._unreadable(daemonset),
        )

    def daemonset_of(self, dependent: Dependent) -> DaemonSet | None:
        """The DaemonSet that controls the object. As for the garbage collector, only in the same namespace."""
        owners = self._by_uid.get(dependent.owner_uid)
        return next((owner for owner in owners if owner.namespace == dependent.namespace), None)

    def is_gone(self, daemonset: DaemonSet) -> bool:
        """Whether the cache no longer shows this DaemonSet, or shows another one of its name."""
        return not self._by_uid.get(daemonset.uid)

    def daemonsets_in(self, namespace: str) -> Iterable[DaemonSet]:
        return self._by_namespace.get(namespace)

    def pods_of(self, daemonset: DaemonSet) -> tuple[Pod, ...]:
        return self._pods_by_owner.get((daemonset.namespace, daemonset.uid))

    def has_pod_on(self, node: str) -> Callable[[DaemonSet], bool]:
        """Returns a test for DaemonSets: whether one has a pod on the node, or one that can run only there."""
        owners = {owner_key(pod) for pod in self._pods_by_node.get(node)}
        return lambda daemonset: (daemonset.namespace, daemonset.uid) in owners

    def revisions_of(self, daemonset: DaemonSet) -> tuple[Revision, ...]:
        return self._revisions_by_owner.get((daemonset.namespace, daemonset.uid))

    def jobs_of(self, daemonset: DaemonSet) -> tuple[ImagePullJob, ...]:
        return self._jobs_by_owner.get((daemonset.namespace, daemonset.uid))

    def unfinished_jobs(self) -> list[ImagePullJob]:
        return [job for job in self.jobs.values() if job.status is None or job.status.completion_time is None]

    def pullers_of(self, job: Key) -> tuple[Puller, ...]:
        """The pullers of the job with this key, even if the job is gone."""
        return self._pullers_by_job.get(job)

    def aliveness(self, daemonset: DaemonSet) -> Callable[[str], bool]:
        """Returns a test for pod uids: whether the cache shows the pod, and not as terminating."""
        alive = cache(lambda: {pod.uid for pod in self.pods_of(daemonset) if not pod.terminating})  # rarely needed
        return lambda pod_uid: pod_uid in alive()

    def reached_for(self, daemonset: DaemonSet) -> dict[str, CacheProgress]:
        namespace = daemonset.namespace
        return {
            PODS.name: self.pods.progress_in(namespace),
            REVISIONS.name: self.revisions.progress_in(namespace),
        }

    def _forget_fleet(self, _: Sequence[Move[Node]]) -> None:
        self._fleet = None

    def _unreadable(self, daemonset: DaemonSet) -> str:
        """Why a pod of `daemonset`, by its name, cannot be decoded; empty if all can."""
        for key, reason in self.pods.malformed.items():
            if key.namespace == daemonset.namespace and key.name.rpartition("-")[0] == daemonset.name:
                return f"pod {key} cannot be read: {reason}"
        return ""


class Compiled:
    def __init__(self, daemonset: DaemonSet, placements: Mapping[str, Rules | None]) -> None:
        """`placements`: those of the previous generation, by revision uid."""
        self.generation, self.spec = daemonset.generation, daemonset.spec
        self.rules = compiled(daemonset)
        self.known_placements = placements
        self._renderers: dict[str, PodRenderer] = {}
        self._changes: Mapping[str, InPlaceChange | NotPossible] = {}
        self._resizable = False

    def is_of(self, daemonset: DaemonSet) -> bool:
        """Compares the spec too: after a backup was restored, the same generation may be another spec."""
        known, spec = self.spec, daemonset.spec
        if self.generation != daemonset.generation or (known is not spec and known != spec):
            return False
        self.spec = spec  # of the newest object, so that the next answer is quick
        return True

    def placements(self, revisions: Iterable[Revision]) -> Mapping[str, Rules | None]:
        """The placement rules of each stored revision, by uid; None for rules that cannot be compiled."""
        self.known_placements = placements_of(revisions, self.known_placements)
        return self.known_placements

    def changes(
        self, daemonset: DaemonSet, revisions: Iterable[Revision], *, resizable: bool
    ) -> Mapping[str, InPlaceChange | NotPossible]:
        """The in-place change from each older stored revision, by hash; empty without in-place updates."""
        if self._resizable != resizable:
            self._resizable, self._changes = resizable, {}
        self._changes = changes_to(daemonset, revisions, resizable=resizable, known=self._changes)
        return self._changes

    def renderer(self, daemonset: DaemonSet, revision: Revision) -> PodRenderer:
        renderer = self._renderers.get(revision.hash)
        if renderer is None:
            renderer = self._renderers[revision.hash] = PodRenderer(daemonset, revision)
        return renderer
