"""A kind of object as this project uses it: where it lives, what is read of it, what is kept of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeAlias, TypeVar
from urllib.parse import quote

from controller.api.base import Value
from controller.api.meta import Key, ObjectMeta, Ref

Target: TypeAlias = Key | Ref
"""An object to ask for or to write to. Only namespace and name are used; guards are separate."""


class Wire(Protocol):
    """A msgspec struct that declares the fields to be read, `metadata` among them."""

    @property
    def metadata(self) -> ObjectMeta: ...


W = TypeVar("W", bound=Wire)
T = TypeVar("T")


class Resource(Value, Generic[W, T], kw_only=True):
    """One kind. `wire` is decoded from the server's bytes and turned into the record that is kept by `project`.

    `project` returns None for an object that is not ours: it is dropped at once and costs no memory. It may
    raise ValueError for an object that cannot be used; that object is then `Malformed`, the others go on.
    """

    group: str = ""
    """Empty for the core group."""
    version: str = "v1"
    plural: str
    namespaced: bool = True
    custom: bool = False
    """Defined by a CRD: a server that does not know the kind has none of its objects any more."""
    only: str = ""
    """Label selector: of all objects, lists and watches have these. Empty: all."""
    wire: type[W]
    project: Callable[[W], T | None]

    @property
    def query(self) -> tuple[tuple[str, str], ...]:
        """Of every list and watch."""
        return (("labelSelector", self.only),) if self.only else ()

    @property
    def name(self) -> str:
        """As kubectl writes it: `pods`, `daemonsets.apps.kruise.io`."""
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
        """For people: `pods/status default/agent-x1`."""
        return f"{self.name}/{sub} {target}" if sub else f"{self.name} {target}"
