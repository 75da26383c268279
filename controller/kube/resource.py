"""A kind of object as this project uses it: its path on the server, the fields that are read, the record that is
kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeAlias, TypeVar
from urllib.parse import quote

from controller.api.base import Value
from controller.api.meta import Key, ObjectMeta, Ref

Target: TypeAlias = Key | Ref
"""An object to read or to write. Only namespace and name are used; guards are separate."""


class Wire(Protocol):
    """A msgspec struct that declares the fields to be read, including `metadata`."""

    @property
    def metadata(self) -> ObjectMeta: ...


W = TypeVar("W", bound=Wire)
T = TypeVar("T")


class GroupVersionResource(Value, kw_only=True):
    """The part of a resource that a request needs."""

    group: str = ""
    """Empty for the core group."""
    version: str = "v1"
    plural: str
    namespaced: bool = True

    @property
    def name(self) -> str:
        """The name as kubectl writes it: `pods`, `daemonsets.apps.kruise.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def collection(self, namespace: str = "") -> str:
        """Path of all objects, or of those in one namespace. `namespace` is ignored for a cluster-scoped kind."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if namespace and self.namespaced:
            return f"{root}/namespaces/{quote(namespace, safe='')}/{self.plural}"
        return f"{root}/{self.plural}"

    def path(self, target: Target, sub: str = "") -> str:
        """Path of one object, or of its subresource `sub` ("status", "resize")."""
        path = f"{self.collection(target.namespace)}/{quote(target.name, safe='')}"
        return f"{path}/{sub}" if sub else path

    def describe(self, target: Target, sub: str = "") -> str:
        """The object in words, for people: `pods/status default/agent-x1`."""
        return f"{self.name}/{sub} {target}" if sub else f"{self.name} {target}"


class Resource(GroupVersionResource, Generic[W, T], kw_only=True):
    """One kind that is read. The bytes of the server are decoded to `wire`, and `project` makes the record that is
    kept.

    `project` returns None for an object that is not ours, which then costs no memory. It may raise ValueError for an
    object that cannot be used; that object is then `Malformed`, and all others are read.
    """

    custom: bool = False
    """Whether a CRD defines the kind. If the server does not know a custom kind, none of its objects exist any
    more."""
    only: str = ""
    """Label selector of all lists and watches; empty: all objects."""
    wire: type[W]
    project: Callable[[W], T | None]

    @property
    def query(self) -> tuple[tuple[str, str], ...]:
        """The query parameters of every list and watch."""
        return (("labelSelector", self.only),) if self.only else ()
