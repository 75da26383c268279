"""What an API server says about itself: enough for kubectl's `get`, `apply --validate=false` and `delete`."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.kube.requests import Response
from tests.beds.simulator import refusal
from tests.beds.simulator.cluster import Cluster
from tests.beds.simulator.objects import Kind

VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]

VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.3-simulated",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "simulated",
}


def discover(cluster: Cluster, path: str) -> Response:
    """Answer a path that is no resource. Raises 404."""
    path = path.rstrip("/") or "/"
    if path in ("/readyz", "/livez", "/healthz"):
        return Response(status=200, body=b"ok")
    document = _document(cluster, path)
    if document is None:
        raise refusal.no_such_path()
    return Response(status=200, body=msgspec.json.encode(document))


def _document(cluster: Cluster, path: str) -> dict[str, Any] | None:
    if path == "/version":
        return VERSION
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    groups = list(dict.fromkeys(kind.group for kind in cluster.kinds if kind.group))
    if path == "/apis":
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(cluster, name) for name in groups]}
    segments = path.strip("/").split("/")
    if segments[0] == "apis" and len(segments) == 2 and segments[1] in groups:
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(cluster, segments[1])}
    group, version = (
        (segments[1], segments[2]) if segments[0] == "apis" and len(segments) == 3 else ("", segments[-1])
    )
    kinds = [kind for kind in cluster.kinds if kind.group == group and version in kind.versions]
    if not kinds or (not group and segments != ["api", "v1"]):
        return None
    resources = [entry for kind in kinds for entry in _resources(kind)]
    api_version = kinds[0].api_version(version)
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": resources}


def _group(cluster: Cluster, name: str) -> dict[str, Any]:
    served = dict.fromkeys(version for kind in cluster.kinds if kind.group == name for version in kind.versions)
    versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in served]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resources(kind: Kind) -> list[dict[str, Any]]:
    entry = {
        "name": kind.plural,
        "singularName": kind.kind.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": VERBS,
        "shortNames": list(kind.short_names),
    }
    if not kind.status:
        return [entry]
    subresources = ["status", "resize"] if kind.plural == "pods" else ["status"]
    return [entry, *(_subresource(kind, name) for name in subresources)]


def _subresource(kind: Kind, name: str) -> dict[str, Any]:
    return {
        "name": f"{kind.plural}/{name}",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": ["get", "patch", "update"],
    }
