"""Objects for tests in one line each."""

from __future__ import annotations

from typing import Any

from tests.kit.api import DAEMONSETS, Object, Resource


def demo(name: str = "demo", image: str = "busybox", *, resource: Resource = DAEMONSETS, **spec: Any) -> Object:
    """Listing 16.1 of the book under our group; `spec` adds fields: `updateStrategy={"type": "OnDelete"}`."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": name, "image": image, "command": ["sleep", "infinity"]}]},
            },
            **spec,
        },
    }


def pod(name: str, *, image: str = "busybox", on: str = "", aimed_at: str = "", **metadata: Any) -> Object:
    """A pod of one container. `on`: bound to that node from birth; `aimed_at`: its affinity names that node."""
    spec: Object = {"containers": [{"name": "main", "image": image}]}
    if on:
        spec["nodeName"] = on
    if aimed_at:
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": only_node(aimed_at)}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def only_node(name: str) -> Object:
    """The node selector that every daemon pod has: this node by its name and no other."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]}]
    return {"nodeSelectorTerms": [{"matchFields": fields}]}


def configmap(name: str, data: dict[str, str] | None = None, **metadata: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": data or {},
    }


def owner(found: Object, *, controller: bool = True, block: bool = True) -> Object:
    """An owner reference to an object as the server returned it."""
    return {
        "apiVersion": found["apiVersion"],
        "kind": found["kind"],
        "name": found["metadata"]["name"],
        "uid": found["metadata"]["uid"],
        "controller": controller,
        "blockOwnerDeletion": block,
    }


def is_ready(found: Object) -> bool:
    """A pod whose Ready condition is True."""
    conditions = (found.get("status") or {}).get("conditions") or []
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
