"""Requests to an API server as values, and the kinds that controller and plugin read. `Transport` is the only seam
between the product and the network."""

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
"""An object to read or write, by namespace and name only; guards are separate."""


class Wire(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


W = TypeVar("W", bound=Wire)
T = TypeVar("T")


class GroupVersionResource(Value, kw_only=True):
    group: str = ""
    version: str = "v1"
    plural: str
    namespaced: bool = True

    @property
    def name(self) -> str:
        """As kubectl writes it: `pods`, `daemonsets.apps.kruise.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def collection(self, namespace: str = "") -> str:
        """The path of all objects, or those in one namespace (ignored for cluster-scoped kinds)."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if namespace and self.namespaced:
            return f"{root}/namespaces/{quote(namespace, safe='')}/{self.plural}"
        return f"{root}/{self.plural}"

    def path(self, target: Target, sub: str = "") -> str:
        """The path of an object, or of its subresource `sub` ("status", "resize")."""
        path = f"{self.collection(target.namespace)}/{quote(target.name, safe='')}"
        return f"{path}/{sub}" if sub else path

    def describe(self, target: Target, sub: str = "") -> str:
        """The object for messages: `pods/status default/agent-x1`."""
        return f"{self.name}/{sub} {target}" if sub else f"{self.name} {target}"


class Resource(GroupVersionResource, Generic[W, T], kw_only=True):
    """A kind that is read: decoded to `wire`, then projected to the record that is kept. `project` returns None for
    an object that is not ours, to save its memory. If it raises ValueError, only that object is `Malformed`."""

    custom: bool = False
    """Whether a CRD defines the kind. If the server does not know such a kind, none of its objects exist any more."""
    only: str = ""
    """Label selector of all lists and watches; empty selects everything."""
    wire: type[W]
    project: Callable[[W], T | None]

    @property
    def query(self) -> tuple[tuple[str, str], ...]:
        return (("labelSelector", self.only),) if self.only else ()


JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
"""Server-side apply; its body may be JSON, a subset of YAML."""
ONLY_METADATA = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1, {JSON}"
"""As `Request.accept`: instead of an object, a PartialObjectMetadata, if the server can."""
PAGE_SIZE = 500
"""Objects per page of a list, as in client-go (`pager.defaultPageSize`)."""


_WARNING = re.compile(r'\b299 \S+ "((?:[^"\\]|\\.)*+)"')
"""One warning of possibly several in a header: `299 - "text" "date"`."""
_ESCAPED = re.compile(r"\\(.)")


class NotConnected(ConnectionError):
    """No connection could be opened, so nothing has reached the server."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """`path` starts with `/api` or `/apis`; values of `query` are not yet escaped."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    content_type: str = JSON
    accept: str = JSON
    timeout: float | None = 30.0
    """Seconds for the exchange or, for a stream, of silence until it counts as broken. None means no limit."""
    permission: Callable[[], None] | None = None
    """Called just before the first byte is sent, as opening a connection may take long. If it raises, nothing is
    sent, and `exchange` raises the same. Not called for a stream."""


class Response(msgspec.Struct, frozen=True, kw_only=True):
    status: int
    body: bytes = b""
    retry_after: float | None = None
    """The `Retry-After` header in seconds; None if not sent."""
    date: str = ""
    """The `Date` header; empty if not sent."""
    warning_headers: tuple[str, ...] = ()

    def warnings(self) -> list[str]:
        """The texts of the warnings with code 299, each once and on one line."""
        texts = [_ESCAPED.sub(r"\1", text) for header in self.warning_headers for text in _WARNING.findall(header)]
        lines = [" ".join(text.encode(errors="replace").decode().split()) for text in texts]
        return list(dict.fromkeys(filter(None, lines)))


Query: TypeAlias = tuple[tuple[str, str], ...]
Refresh: TypeAlias = Callable[[], Awaitable[None]]
"""Gets new credentials for a transport, or raises ConfigError."""


class Stream(Protocol):
    status: int
    retry_after: float | None
    date: str
    """The `Date` header; empty if not sent."""

    def chunks(self) -> AsyncIterator[bytes]:
        """Bytes as they arrive, in chunks of any size; the error body if the status is not 200."""
        ...


class Transport(Protocol):
    """Moves bytes to one API server and back, whatever the status code. Without an answer, both methods raise OSError
    or TimeoutError, not the library's errors. The OSError `NotConnected` guarantees that nothing was sent, so that
    even a create may be repeated."""

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
"""Pods as sent, read one by one and never cached."""
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
