"""The path of a request taken apart."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote

from controller.kube.requests import Request

VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch"}
OF_MANY = {"get": "list", "delete": "deletecollection"}
"""What these are where no object is named."""
TRUE = ("1", "true", "True")


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
    return _route(request.path, _verb(request))


@lru_cache(maxsize=4096)
def _route(path: str, verb: str) -> Route:
    segments = [unquote(segment) for segment in path.strip("/").split("/")]
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
    return Route(verb if name else OF_MANY.get(verb, verb), group, version, plural, namespace, name, subresource)


def _verb(request: Request) -> str:
    if request.method == "GET" and any(key == "watch" and value in TRUE for key, value in request.query):
        return "watch"
    return VERBS.get(request.method, request.method.lower())
