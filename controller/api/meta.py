"""Object metadata: what every Kubernetes object carries, how we point at one, and whose it is."""

from __future__ import annotations

import calendar
from datetime import UTC, datetime
from sys import intern
from typing import NamedTuple

from controller.api.base import Value, View
from controller.api.wellknown import GROUP, KIND


class Key(NamedTuple):
    """Namespace and name: how work on one DaemonSet is queued. Cluster-scoped objects have namespace ""."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def typed(self) -> str:
        """`NAME -n NAMESPACE`, as a person types it to kubectl."""
        return f"{self.name} -n {self.namespace}"


class Ref(Value):
    """One object as it was when we looked: enough to write to it with a precondition."""

    namespace: str
    name: str
    uid: str
    version: str = ""
    """resourceVersion; empty where only the uid guards the write."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Named(Value):
    """A namespaced object as it is cached: what the store, the queue and every guarded write need of it."""

    namespace: str
    name: str
    uid: str
    version: str
    """resourceVersion, as the server wrote it."""

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)

    @property
    def ref(self) -> Ref:
        return Ref(namespace=self.namespace, name=self.name, uid=self.uid, version=self.version)


class OwnerReference(View):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None

    @property
    def group(self) -> str:
        """API group without the version: ownership never looks at the version."""
        return self.api_version.rpartition("/")[0]


class ObjectMeta(View):
    """The metadata fields that decisions read. Times are RFC 3339 strings; see `epoch`."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: tuple[str, ...] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None


class Ownership(Value):
    """Where an object stands between the Advanced DaemonSets."""

    uid: str
    """uid of the one that controls it; empty when nobody does."""
    index: int
    """Place of that owner among `metadata.ownerReferences`, or their number when nobody controls it."""


def ownership_of(meta: ObjectMeta) -> Ownership | None:
    """By group, kind and uid, never by the version of the API and never by the name. None for an object that another
    kind of controller owns: it is none of our business."""
    references = meta.owner_references or ()
    for index, owner in enumerate(references):
        if owner.controller:
            ours = owner.group == GROUP and owner.kind == KIND
            return Ownership(uid=intern(owner.uid), index=index) if ours else None
    return Ownership(uid="", index=len(references))


def epoch(stamp: str | None) -> float | None:
    """Seconds since 1970 (UTC) of an RFC 3339 time as the API server writes it; None for None or ""."""
    if not stamp:
        return None
    if len(stamp) == 20 and stamp[-1] == "Z":  # 2026-11-21T10:12:13Z: metav1.Time, nearly every one
        return float(
            calendar.timegm(
                (
                    int(stamp[0:4]),
                    int(stamp[5:7]),
                    int(stamp[8:10]),
                    int(stamp[11:13]),
                    int(stamp[14:16]),
                    int(stamp[17:19]),
                )
            )
        )
    return datetime.fromisoformat(stamp).timestamp()


def noted(stamp: str | None) -> float | None:
    """Seconds since 1970 (UTC) of a time that anybody may have written, as in an annotation; None where it is no
    RFC 3339 time."""
    try:
        return epoch(stamp)
    except (ValueError, OverflowError):
        return None


def rfc3339(moment: float) -> str:
    """`moment` (seconds since 1970) the way metav1.Time is written: UTC, whole seconds."""
    return datetime.fromtimestamp(int(moment), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
