"""The base classes of all types of the project, and what all objects of Kubernetes have: metadata, owners, times, and
the field managers that wrote them.

A `View` has some fields of an object of the API; decoding drops the others, so a view must never be encoded and
written back. `as_bytes` takes only JSON, which contains no view, and `as_json` only a `Part`; the linter bans other
ways to encode, except in the files that encode our own annotations and reports (pyproject.toml lists them).

Neither views nor values are tracked by the cyclic garbage collector (`gc=False`): they form no cycles, and so it need
not scan a cache of 30,000 pods.
"""

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
    """Some fields of an object of the API, for decoding only."""


class Part(View):
    """A part of an object with all of its fields, so that it may also be written."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A frozen record, compared by content."""


def as_json(part: Part) -> JSONObject:
    fields: JSONObject = msgspec.json.decode(msgspec.json.encode(part))
    return fields


def as_bytes(value: JSON | Sequence[JSON], *, ordered: bool = False) -> bytes:
    """JSON with sorted keys if `ordered`, so that equal values give equal bytes."""
    return msgspec.json.encode(value, order="sorted" if ordered else None)


def is_same(one: JSON, other: JSON) -> bool:
    """Whether two values are equal as JSON. In Python, 1 equals True."""
    return as_bytes(one, ordered=True) == as_bytes(other, ordered=True)


def value_at(document: JSON, *path: str) -> JSON:
    """The value at `path`, in which list indexes are texts; None if there is none."""
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
    """`value` if it is an object, else {}."""
    return value if isinstance(value, dict) else {}


def items_of(value: JSON) -> list[JSONObject]:
    """The objects in `value` if it is a list, else []."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


class Key(NamedTuple):
    """Namespace and name of an object. The namespace of a cluster-scoped one is ""."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Ref(Value):
    """An object as it was seen: enough to write to it with a precondition."""

    namespace: str
    name: str
    uid: str
    version: str = ""
    """The resourceVersion; empty if only the uid guards the write."""

    def __str__(self) -> str:
        return str(Key(self.namespace, self.name))


class NamespacedObject(Value):
    """A namespaced object as it is cached."""

    namespace: str
    name: str
    uid: str
    version: str
    """The resourceVersion."""

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
    """The metadata that is read. Times are RFC 3339; see `epoch`."""

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
    """Empty: the object has no controller."""
    index: int
    """The index of the controller in `metadata.ownerReferences`; their number if there is none."""


def ownership_of(meta: ObjectMeta) -> Ownership | None:
    """The controller of an object, by group, kind and uid. None: it is of another kind."""
    references = meta.owner_references or ()
    for index, owner in enumerate(references):
        if owner.controller:
            ours = owner.group == GROUP and owner.kind == KIND
            return Ownership(uid=intern(owner.uid), index=index) if ours else None
    return Ownership(uid="", index=len(references))


_LAST_MOMENT = 253_402_300_799
"""9999-12-31T23:59:59Z: four digits of year are all that RFC 3339 has."""


def epoch(stamp: str | None) -> float | None:
    """An RFC 3339 time in seconds since 1970; None for None and for any other text. Its time zone may move it beyond
    the years that `rfc3339` can write."""
    try:
        found = datetime.fromisoformat(stamp or "")
        return found.timestamp() if found.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def rfc3339(moment: float) -> str:
    """`moment` (seconds since 1970) as metav1.Time: UTC, whole seconds, at least 1970 and at most 9999."""
    within = min(max(int(moment), 0), _LAST_MOMENT)
    return datetime.fromtimestamp(within, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


OURS = "kruise-ds"
"""The field manager of our writes: the name in the User-Agent."""
COUNTS = ("f:numberReady", "f:numberAvailable", "f:observedGeneration", "f:desiredNumberScheduled")
"""Fields of a status that only a controller writes; conditions may have any writer."""


class StatusWriters(Value):
    """The last writes of a status by us and by another controller, in seconds since 1970; 0: never."""

    ours: float = 0.0
    theirs: float = 0.0
    other: str = ""
    """The field manager of the other controller; empty: none."""

    def other_controller_since(self, before: StatusWriters) -> str:
        """The other controller, if it has written since `before` and the status was ours then; else "".

        A changed entry counts, not which time is later: two controllers that react to the same event write in the
        same second. An entry with an earlier time remains when our write takes over the fields of a later one.
        """
        changed = (self.theirs, self.other) != (before.theirs, before.other)
        return self.other if before.ours and changed and self.theirs >= before.theirs else ""

    @property
    def other_controller_wrote(self) -> float:
        """When another controller wrote after us, if no `before` is known (seconds since 1970); 0: none did."""
        return self.theirs if 0 < self.ours < self.theirs else 0.0


def status_writers(entries: Iterable[ManagedFields]) -> StatusWriters:
    """The last writers of a status by `metadata.managedFields`. kubectl counts as no controller."""
    ours, theirs, other = 0.0, 0.0, ""
    for one in entries:
        if one.subresource != "status":
            continue
        time = epoch(one.time) or 0.0
        if one.manager == OURS:
            ours = max(ours, time)
        elif not one.manager.startswith("kubectl") and _has_counts(one.fields_v1) and time > theirs:
            theirs, other = time, one.manager
    return StatusWriters(ours=ours, theirs=theirs, other=other)


def _has_counts(fields: JSONObject | None) -> bool:
    status = fields_of((fields or {}).get("f:status"))
    return any(field in status for field in COUNTS)
