"""One observation of both DaemonSets, and of the pods and revisions of either or without an owner."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Final

from controller.api import template_identity
from controller.api.names import HASH_LABEL
from controller.api.objects import JSONObject, Value, fields_of, value_at
from kubectl_plugin.migrate.state import FINALIZER, NATIVE_VERSION, Mark, mark_of

NEWEST_POD_SECONDS: Final = 3.0
"""Seconds without a new pod before a delete: only pods that the garbage collector has seen are orphaned."""


class Kind(StrEnum):
    NATIVE = "daemonset.apps"
    OURS = "daemonset.apps.kruise.io"
    REVISION = "controllerrevision.apps"
    POD = "pod"


class MigratingPod(Value):
    """A pod that the selector matches."""

    name: str
    uid: str
    owner: str
    """UID of its controller; empty if there is none."""
    node: str
    hash: str
    created: float
    """Seconds since 1970."""
    generation: int = 0
    """Template generation that the native controller made it from; 0 from other controllers."""
    busy: str = ""
    """Why no other controller can adopt it now, such as an update in place; empty if one can."""
    ends: float | None = None
    """Seconds since 1970 by which the kubelet should have ended it; None unless deleted."""


class RevisionRecord(Value):
    """A ControllerRevision that the selector matches."""

    name: str
    version: str
    owner: str
    labels: dict[str, str]
    annotations: dict[str, str]
    number: int
    template: JSONObject
    terminating: bool = False

    @property
    def hash(self) -> str:
        return self.labels.get(HASH_LABEL) or self.name


class MigrationSide(Value):
    document: JSONObject

    @property
    def kind(self) -> Kind:
        return Kind.NATIVE if self.document.get("apiVersion") == NATIVE_VERSION else Kind.OURS

    @property
    def name(self) -> str:
        return str(value_at(self.document, "metadata", "name"))

    @property
    def uid(self) -> str:
        return str(value_at(self.document, "metadata", "uid"))

    @property
    def version(self) -> str:
        return str(value_at(self.document, "metadata", "resourceVersion"))

    @property
    def terminating(self) -> bool:
        return value_at(self.document, "metadata", "deletionTimestamp") is not None

    @property
    def finalizers(self) -> tuple[str, ...]:
        listed = value_at(self.document, "metadata", "finalizers")
        return tuple(map(str, listed)) if isinstance(listed, list) else ()

    @property
    def is_kept(self) -> bool:
        """Whether the plugin's finalizer keeps the object readable once it is deleted."""
        return FINALIZER in self.finalizers

    @property
    def is_observed(self) -> bool:
        """Whether its controller has observed the newest generation."""
        seen = value_at(self.document, "status", "observedGeneration")
        return seen is not None and seen == value_at(self.document, "metadata", "generation")

    def status_number(self, field: str) -> int:
        """The server omits 0."""
        number = value_at(self.document, "status", field)
        return number if isinstance(number, int) else 0

    @property
    def mark(self) -> Mark | None:
        return mark_of(self.document)

    @property
    def template(self) -> JSONObject:
        return fields_of(value_at(self.document, "spec", "template"))

    @property
    def identity(self) -> str:
        return template_identity.identity(self.template)


class Observed(Value):
    name: str
    namespace: str
    native: MigrationSide | None
    ours: MigrationSide | None
    pods: tuple[MigratingPod, ...]
    """Pods that are not deleted."""
    revisions: tuple[RevisionRecord, ...]
    now: float
    """Seconds since 1970, by the server's clock."""
    as_native: JSONObject | None = None
    """The template as the server would store it in a native DaemonSet; None if not asked."""
    ending_pods: tuple[MigratingPod, ...] = ()
    """Terminating pods. They are not adopted; a controller adds a pod beside one that it does not own."""
    emptied_nodes: frozenset[str] = frozenset()
    """Nodes whose pod ended recently and should be replaced."""

    def pods_of(self, *owners: str) -> tuple[MigratingPod, ...]:
        return tuple(pod for pod in self.pods if pod.owner in owners)

    def ending_of(self, owner: str) -> tuple[MigratingPod, ...]:
        return tuple(pod for pod in self.ending_pods if pod.owner == owner)

    def unreplaced_nodes(self, side: MigrationSide) -> tuple[str, ...]:
        """Nodes where a pod of this side ended recently and has no successor."""
        return tuple(sorted(self.emptied_nodes - {pod.node for pod in self.pods_of(side.uid)}))

    def revisions_of(self, *owners: str) -> tuple[RevisionRecord, ...]:
        """Revisions that are not terminating, newest first."""
        its = [revision for revision in self.revisions if revision.owner in owners and not revision.terminating]
        return tuple(sorted(its, key=lambda one: (one.number, one.name), reverse=True))

    def count_owned_by(self, *owners: str) -> int:
        return len(self.pods_of(*owners)) + len(self.revisions_of(*owners))

    def current_revision(self, side: MigrationSide) -> RevisionRecord | None:
        """The stored revision equivalent to this side's template; None if there is none yet."""
        wanted, its = side.identity, self.revisions_of(side.uid)
        return next((one for one in its if template_identity.identity(one.template) == wanted), None)

    def old_nodes(self, side: MigrationSide) -> int:
        """Number of nodes with only pods of other revisions."""
        return len({pod.node for pod in self.pods_of(side.uid)}) - self.new_nodes(side)

    def new_nodes(self, side: MigrationSide) -> int:
        current = self.current_revision(side)
        return len({pod.node for pod in self.pods_of(side.uid) if current is not None and pod.hash == current.hash})

    def doubled_nodes(self, side: MigrationSide) -> tuple[str, ...]:
        """Nodes with several live pods of this side, as in a surge."""
        return tuple(
            sorted(node for node, count in Counter(pod.node for pod in self.pods_of(side.uid)).items() if count > 1)
        )

    def age_of_newest_pod(self, side: MigrationSide) -> float:
        """Seconds since the newest pod of this side was created."""
        return self.now - max((pod.created for pod in self.pods_of(side.uid)), default=0.0)
