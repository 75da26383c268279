"""The path of a request taken apart."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from controller.kube.request import Request

VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


@dataclass(frozen=True)
class Route:
    """Which resource a request is about. For other paths (`/version`, `/api`) `plural` is empty."""

    verb: str
    """As in RBAC: get, list, watch, create, update, patch, delete, deletecollection."""
    group: str = ""
    version: str = ""
    plural: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def resource(self) -> str:
        """`pods`, `pods/status`, `daemonsets.apps.kruise.io`."""
        resource = f"{self.plural}.{self.group}" if self.group else self.plural
        return f"{resource}/{self.subresource}" if self.subresource else resource


def route(request: Request) -> Route:
    """Where `request` goes. Never raises: what cannot be understood has an empty `plural`."""
    segments = [unquote(segment) for segment in request.path.strip("/").split("/")]
    group = ""
    if segments[0] == "apis" and len(segments) > 1:
        group = segments.pop(1)
    elif segments[0] != "api":
        return Route("get")
    if len(segments) < 3:
        return Route("get")
    version, rest = segments[1], segments[2:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = [*rest, "", ""][:3]
    return Route(_verb(request, name), group, version, plural, namespace, name, subresource)


def _verb(request: Request, name: str) -> str:
    if request.method == "GET":
        if any(key == "watch" and value in ("1", "true", "True") for key, value in request.query):
            return "watch"
        return "get" if name else "list"
    if request.method == "DELETE":
        return "delete" if name else "deletecollection"
    return VERBS.get(request.method, request.method.lower())
