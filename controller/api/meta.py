"""Object metadata: the fields of every Kubernetes object, references to objects, ownership, and times."""

from __future__ import annotations

from datetime import UTC, datetime
from sys import intern
from typing import NamedTuple

from controller.api.base import Value, View
from controller.api.wellknown import GROUP, KIND


class Key(NamedTuple):
    """Namespace and name, by which objects are cached and queued. For cluster-scoped objects the namespace is ""."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def typed(self) -> str:
        """`NAME -n NAMESPACE`, as one types it after kubectl."""
        return f"{self.name} -n {self.namespace}"


class Ref(Value):
    """One object as we have seen it: enough to write to it with a precondition."""

    namespace: str
    name: str
    uid: str
    version: str = ""
    """The resourceVersion; empty if only the uid guards the write."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Named(Value):
    """A namespaced object in a cache: what store, queue and guarded writes need."""

    namespace: str
    name: str
    uid: str
    version: str
    """The resourceVersion as the server wrote it."""

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
        """The API group without the version, which never matters for ownership."""
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
    """Which Advanced DaemonSet controls an object, if any."""

    uid: str
    """The uid of its controller; empty: it has none."""
    index: int
    """The index of that owner in `metadata.ownerReferences`; their number if there is no controller."""


def ownership_of(meta: ObjectMeta) -> Ownership | None:
    """Who controls an object, by group, kind and uid, never by the API version or the name. None: another kind of
    controller owns it, so it is not ours to touch."""
    references = meta.owner_references or ()
    for index, owner in enumerate(references):
        if owner.controller:
            ours = owner.group == GROUP and owner.kind == KIND
            return Ownership(uid=intern(owner.uid), index=index) if ours else None
    return Ownership(uid="", index=len(references))


_LAST_MOMENT = 253_402_300_799
"""9999-12-31T23:59:59Z: four digits of year are all that RFC 3339 has."""


def epoch(stamp: str | None) -> float | None:
    """An RFC 3339 time in seconds since 1970; None for None and for any other text. The time zone may move it beyond
    the years that `rfc3339` can write."""
    try:
        found = datetime.fromisoformat(stamp or "")
        return found.timestamp() if found.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def rfc3339(moment: float) -> str:
    """`moment` (seconds since 1970) in the form of metav1.Time: UTC, whole seconds. What lies before 1970 or after
    9999 becomes the first or the last moment that can be written."""
    within = min(max(int(moment), 0), _LAST_MOMENT)
    return datetime.fromtimestamp(within, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
