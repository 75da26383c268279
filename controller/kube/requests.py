"""Requests to an API server as values, and the kinds that controller and plugin read.

Code that asks the server builds `Request` values, without I/O; a `Transport` moves bytes. The two methods of that
protocol are the only seam between the product and the network.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Generic, Protocol, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec

from controller.api import daemonset, image_pull_job, node, pod, revision
from controller.api.names import GROUP, VERSION
from controller.api.objects import Key, ObjectMeta, Ref, Value

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
        """The object for messages: `pods/status default/agent-x1`."""
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


JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
"""Server-side apply; its body may be JSON, which is YAML, too."""
PAGE_SIZE = 500
"""Objects in one page of a list, as in client-go (`pager.defaultPageSize`)."""


_WARNING = re.compile(r'(?P<code>\d{3}) \S+ "(?P<text>(?:[^"\\]|\\.)*+)"(?: "[^"]*")?\s*(?:,\s*|\Z)')
"""One warning of a header, which may have several: `299 - "text" "date"`."""
_ESCAPED = re.compile(r"\\(.)")


class NotConnected(ConnectionError):
    """No connection could be opened, so nothing of the request has reached the server."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request. `path` starts with `/api` or `/apis`; values of `query` are not escaped yet."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    content_type: str = JSON
    timeout: float | None = 30.0
    """Seconds for the whole exchange; for a stream, seconds of silence after which it counts as broken. None: no
    limit."""
    permission: Callable[[], None] | None = None
    """Called once the connection is open, just before the first byte is sent, as opening may take long. What it
    raises is raised by `exchange`, and then nothing was sent. Not called for a stream."""


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of the server, with any status code."""

    status: int
    body: bytes = b""
    retry_after: float | None = None
    """Seconds, from the `Retry-After` header; None if the server sent none."""
    date: str = ""
    """The `Date` header; empty if the server sent none."""
    warning_headers: tuple[str, ...] = ()
    """The `Warning` headers as they came."""

    def warnings(self) -> list[str]:
        """The texts of the warnings with code 299, each once and on one line."""
        found = [one for header in self.warning_headers for one in _WARNING.finditer(header)]
        texts = [_ESCAPED.sub(r"\1", one["text"]) for one in found if one["code"] == "299"]
        lines = [" ".join(text.encode(errors="replace").decode().split()) for text in texts]
        return list(dict.fromkeys(filter(None, lines)))


Query: TypeAlias = tuple[tuple[str, str], ...]
"""Query parameters of a request, in order."""
Refresh: TypeAlias = Callable[[], Awaitable[None]]
"""Gets new credentials for a transport, or raises ConfigError."""


class Stream(Protocol):
    """An open watch: the status line, then bytes in chunks of any size."""

    status: int
    retry_after: float | None

    def chunks(self) -> AsyncIterator[bytes]:
        """The bytes as they arrive, until the server closes. If the status is not 200, they are the error body."""
        ...


class Transport(Protocol):
    """Moves bytes to one API server and back.

    Both methods raise `OSError` or `TimeoutError` when there is no answer; implementations translate the errors of
    their library. They do not look at the status code: 404 and 500 are answers. `NotConnected`, an OSError, promises
    that nothing was sent, so that even a create may be repeated.
    """

    async def exchange(self, request: Request) -> Response: ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]: ...


DAEMONSETS = Resource(
    group=GROUP,
    version=VERSION,
    plural="daemonsets",
    custom=True,
    wire=daemonset.DaemonSetView,
    project=daemonset.project,
)
PODS = Resource(plural="pods", wire=pod.PodView, project=pod.project)
POD_VIEWS: Resource[pod.ManagedPodView, pod.ManagedPodView] = Resource(
    plural="pods", wire=pod.ManagedPodView, project=lambda view: view
)
"""Pods as they were sent. They are read one by one and never cached."""
NODES = Resource(plural="nodes", namespaced=False, wire=node.NodeView, project=node.project)
NODES_WITH_IMAGES = Resource(
    plural="nodes", namespaced=False, wire=node.NodeWithImagesView, project=node.project_with_images
)
REVISIONS = Resource(group="apps", plural="controllerrevisions", wire=revision.RevisionView, project=revision.project)
IMAGE_PULL_JOBS = Resource(
    group=GROUP,
    version=VERSION,
    plural="imagepulljobs",
    custom=True,
    wire=image_pull_job.ImagePullJobView,
    project=image_pull_job.project,
)
PULLERS = Resource(
    plural="pods", only=image_pull_job.PULLER_LABEL, wire=pod.PodView, project=image_pull_job.project_puller
)
