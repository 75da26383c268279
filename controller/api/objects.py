"""Base classes, and what Kubernetes objects share: metadata, owners, times and field managers. A `View` drops fields
that it does not declare, so it must never be written back: `as_bytes` takes only JSON, `as_json` only a `Part`, and
the linter bans other encoders (exceptions: pyproject.toml). Instances form no cycles, so `gc=False` spares the
garbage collector a cache of 30,000 pods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from sys import intern
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, dataclass_transform

import msgspec

from controller.api.names import GROUP, KIND

if TYPE_CHECKING:
    JSON: TypeAlias = dict[str, "JSON"] | list["JSON"] | str | int | float | bool | None
    JSONObject: TypeAlias = dict[str, JSON]
else:  # msgspec resolves annotations at run time and knows no recursive alias
    JSON = Any
    JSONObject = dict[str, Any]


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class View(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Some fields of an API object, for decoding only."""


class Part(View):
    """A part of an API object with all of its fields, which may be written back."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A frozen record, compared by content."""


def as_json(part: Part) -> JSONObject:
    fields: JSONObject = msgspec.json.decode(msgspec.json.encode(part))
    return fields


def as_bytes(value: JSON | Sequence[JSON], *, ordered: bool = False) -> bytes:
    return msgspec.json.encode(value, order="sorted" if ordered else None)


def is_same(value: JSON, other: JSON) -> bool:
    """Whether two values are equal as JSON; unlike in Python, 1 is not true."""
    return as_bytes(value, ordered=True) == as_bytes(other, ordered=True)


def value_at(document: JSON, *path: str) -> JSON:
    """The value at `path`, with list indexes as strings; None if there is none."""
    here = document
    for segment in path:
        if isinstance(here, dict):
            here = here.get(segment)
        elif isinstance(here, list) and segment.isdecimal() and int(segment) < len(here):
            here = here[int(segment)]
        else:
            return None
    return here


def fields_of(value: JSON) -> JSONObject:
    return value if isinstance(value, dict) else {}


def items_of(value: JSON) -> list[JSONObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


class Key(NamedTuple):
    """An object's namespace and name. The namespace of a cluster-scoped object is ""."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Ref(Value):
    """An object as it was read: enough for a write with a precondition."""

    namespace: str
    name: str
    uid: str
    version: str = ""
    """The resourceVersion; empty if only the uid guards the write."""

    def __str__(self) -> str:
        return str(Key(self.namespace, self.name))


class NamespacedObject(Value):
    namespace: str
    name: str
    uid: str
    version: str

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
        return self.api_version.rpartition("/")[0]


class ObjectMeta(View):
    """Metadata that is read. Times are RFC 3339; see `epoch`."""

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


class ManagedFields(View):
    manager: str = ""
    subresource: str = ""
    time: str | None = None
    fields_v1: JSONObject | None = None


class ManagedMeta(ObjectMeta):
    managed_fields: tuple[ManagedFields, ...] | None = None


class Ownership(Value):
    """The Advanced DaemonSet that controls an object."""

    uid: str
    """Empty if the object has no controller."""
    index: int
    """Index in `metadata.ownerReferences`; their number without a controller."""


def ownership_of(meta: ObjectMeta) -> Ownership | None:
    """Returns None if the controller is of another kind."""
    references = meta.owner_references or ()
    for index, owner in enumerate(references):
        if owner.controller:
            ours = owner.group == GROUP and owner.kind == KIND
            return Ownership(uid=intern(owner.uid), index=index) if ours else None
    return Ownership(uid="", index=len(references))


_LAST_MOMENT = 253_402_300_799


def epoch(stamp: str | None) -> float | None:
    """An RFC 3339 time in seconds since 1970, or None. A UTC offset may move it beyond the years of `rfc3339`."""
    try:
        found = datetime.fromisoformat(stamp or "")
        return found.timestamp() if found.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def rfc3339(moment: float) -> str:
    """Seconds since 1970 as metav1.Time: UTC, whole seconds, clamped to the years 1970 to 9999."""
    within = min(max(int(moment), 0), _LAST_MOMENT)
    return datetime.fromtimestamp(within, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


FIELD_MANAGER = "kruise-ds"
"""The field manager of our writes, taken from the User-Agent."""
COUNTS = ("f:numberReady", "f:numberAvailable", "f:observedGeneration", "f:desiredNumberScheduled")
"""Status fields that only a controller writes; conditions may have any writer."""


class StatusWriters(Value):
    """When we and another controller last wrote a status, in seconds since 1970; 0 means never."""

    ours: float = 0.0
    theirs: float = 0.0
    other: str = ""

    def other_controller_since(self, before: StatusWriters) -> str:
        """The other controller if it has written since `before`, which had a write of ours; else "".

        An entry with an earlier time than before is not a new write: our write has taken over the fields of a later
        one. The time is not compared with ours, as both may write in the same second."""
        changed = (self.theirs, self.other) != (before.theirs, before.other)
        return self.other if before.ours and changed and self.theirs >= before.theirs else ""

    @property
    def other_controller_wrote(self) -> float:
        """When another controller wrote after us, in seconds since 1970; 0 if none did."""
        return self.theirs if 0 < self.ours < self.theirs else 0.0


def status_writers(entries: Iterable[ManagedFields]) -> StatusWriters:
    """The last writers of a status by `metadata.managedFields`. kubectl is not a controller."""
    ours, theirs, other = 0.0, 0.0, ""
    for entry in entries:
        if entry.subresource != "status":
            continue
        time = epoch(entry.time) or 0.0
        if entry.manager == FIELD_MANAGER:
            ours = max(ours, time)
        elif not entry.manager.startswith("kubectl") and _has_counts(entry.fields_v1) and time > theirs:
            theirs, other = time, entry.manager
    return StatusWriters(ours=ours, theirs=theirs, other=other)


def _has_counts(fields: JSONObject | None) -> bool:
    status = fields_of((fields or {}).get("f:status"))
    return any(field in status for field in COUNTS)
