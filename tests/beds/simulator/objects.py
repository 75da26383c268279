"""Objects as the simulated API server keeps them, what makes their kinds different, and the syntax that all kinds
share: names, labels and required fields."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

Object: TypeAlias = dict[str, Any]
"""JSON of one object. What is stored is never changed in place."""

Name: TypeAlias = tuple[str, str]
"""Namespace and name; the namespace of a cluster-scoped object is ""."""


@dataclass(frozen=True)
class Cause:
    """One entry of `details.causes`: what is wrong with which field."""

    field: str
    reason: str
    message: str


def no_defaults(_: Object) -> None:
    """Most kinds are stored as they were sent."""


def no_rules(_new: Object, _old: Object | None) -> list[Cause]:
    """Most kinds are not looked at."""
    return []


@dataclass(frozen=True, eq=False)
class Kind:
    """One row of the table of kinds: everything in which the server treats kinds differently."""

    group: str
    versions: tuple[str, ...]
    """The versions that are served; objects are the same in each of them."""
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    custom: bool = False
    """Defined by a CRD: writes of /status touch nothing else, no strategic merge, items of lists name their kind."""
    status: bool = False
    """Has the /status subresource."""
    generation: bool = False
    """Counts changes of the spec in metadata.generation."""
    graceful: bool = False
    """Pods only: deleted in two steps when they are on a node."""
    answers_with_deleted: bool = False
    """DELETE answers with the object also when it is gone at once."""
    unconditional_update: bool = True
    """PUT may leave out the resourceVersion."""
    create_on_update: bool = False
    """PUT creates what is not there."""
    defaults: Callable[[Object], None] = no_defaults
    """Completes a new object in place."""
    fills: Callable[[Object], None] = no_defaults
    """Completes, in place, what a write has made of an object that is there."""
    rules: Callable[[Object, Object | None], list[Cause]] = no_rules
    """What is wrong with the new object, seen beside the old one when there is one."""

    @property
    def resource(self) -> str:
        """As kubectl writes it: `pods`, `daemonsets.apps.kruise.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def api_version(self, version: str = "") -> str:
        version = version or self.versions[0]
        return f"{self.group}/{version}" if self.group else version


_encoder = msgspec.json.Encoder()


@dataclass(eq=False)
class Stored:
    """One state of one object. `object` carries neither apiVersion nor kind: these depend on who asks."""

    kind: Kind
    name: Name
    uid: str
    version: int
    object: Object
    inner: bytes = b""
    _full: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.inner = _encoder.encode(self.object)

    @property
    def metadata(self) -> Object:
        metadata: Object = self.object["metadata"]
        return metadata

    def copy(self) -> Object:
        """A deep copy that may be changed."""
        copied: Object = msgspec.json.decode(self.inner)
        return copied

    def encoded(self, version: str = "") -> bytes:
        """The whole object as the clients of API version `version` see it."""
        full = self._full.get(version)
        if full is None:
            head = f'{{"kind":"{self.kind.kind}","apiVersion":"{self.kind.api_version(version)}",'
            full = self._full[version] = head.encode() + self.inner[1:]
        return full


SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")

BAD_NAME = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    f"and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{SUBDOMAIN.pattern}')"
)
BAD_LABEL = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', "
    f"regex used for validation is '{LABEL_VALUE.pattern}')"
)


def required(path: str, why: str = "") -> Cause:
    return Cause(path, "FieldValueRequired", f"Required value{': ' if why else ''}{why}")


def immutable(path: str, value: str) -> Cause:
    return Cause(path, "FieldValueInvalid", f"Invalid value: {value}: field is immutable")


def _wrong(path: str, value: str, why: str) -> Cause:
    return Cause(path, "FieldValueInvalid", f'Invalid value: "{value}": {why}')


def name_causes(name: str) -> list[Cause]:
    if not name:
        return [required("metadata.name", "name or generateName is required")]
    return subdomain_causes("metadata.name", name)


def subdomain_causes(path: str, name: str) -> list[Cause]:
    causes = []
    if len(name) > 253:
        causes.append(_wrong(path, name, "must be no more than 253 bytes"))
    if not SUBDOMAIN.fullmatch(name):
        causes.append(_wrong(path, name, BAD_NAME))
    return causes


def label_causes(found: Object) -> list[Cause]:
    causes = []
    for value in (found["metadata"].get("labels") or {}).values():
        if len(value) > 63:
            causes.append(_wrong("metadata.labels", value, "must be no more than 63 bytes"))
        if not LABEL_VALUE.fullmatch(value):
            causes.append(_wrong("metadata.labels", value, BAD_LABEL))
    return causes
