"""Nodes, pods and their owner as an API server sends them, of a size as in real clusters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from controller.api import daemonset
from controller.api.names import API_VERSION
from tests.tools.bench import manifests
from tests.tools.bench.api import JSON
from tests.tools.bench.manifests import FIRST_IMAGE, NAME

HASH = "bcdfghjklm"
WHEN = "2026-01-01T00:00:00Z"
ZONES = 3


def owner(index: int = 0) -> JSON:
    """The Advanced DaemonSet `index` as it is stored."""
    found = manifests.daemonset(API_VERSION, "bench")
    found["metadata"] |= {"uid": f"00000000-0000-4000-8000-{index:012}", "resourceVersion": "7", "generation": 1}
    return found


def parsed_owner() -> daemonset.DaemonSet:
    return daemonset.project(msgspec.convert(owner(), daemonset.DaemonSetView))


def revision(template: JSON) -> JSON:
    """The ControllerRevision of `owner()` for this template."""
    reference = {"apiVersion": API_VERSION, "kind": "DaemonSet", "name": NAME, "uid": owner()["metadata"]["uid"]}
    metadata = {
        "name": f"{NAME}-{HASH}",
        "namespace": "bench",
        "uid": "00000000-0000-4000-9000-000000000000",
        "resourceVersion": "8",
        "labels": {**manifests.LABELS, "controller-revision-hash": HASH},
        "ownerReferences": [{**reference, "controller": True}],
    }
    return {"metadata": metadata, "revision": 1, "data": {"spec": {"template": {**template, "$patch": "replace"}}}}


def node(index: int) -> JSON:
    found = manifests.node(index)
    found["metadata"] |= {
        "uid": f"10000000-0000-4000-8000-{index:012}",
        "resourceVersion": str(1000 + index),
        "creationTimestamp": WHEN,
        "managedFields": [_managed("kubelet", 12)],
    }
    conditions = [_condition(kind) for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")]
    images = [{"names": [f"registry.example/image-{number}:1"], "sizeBytes": 12345678} for number in range(20)]
    size = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    status = {"allocatable": size, "capacity": size, "conditions": conditions, "images": images}
    return {**found, "spec": {"podCIDR": "10.0.0.0/24"}, "status": status}


def pods(nodes: Sequence[int], owner_index: int = 0) -> Iterator[JSON]:
    """The ready pods of one owner, on these nodes."""
    for index, body in zip(nodes, manifests.daemon_pods(owner(owner_index), nodes), strict=True):
        yield _bound(body, index, owner_index)


def event(found: JSON) -> bytes:
    """A watch event about it, as one line."""
    return msgspec.json.encode({"type": "MODIFIED", "object": found})


def _bound(body: JSON, index: int, owner_index: int) -> JSON:
    number = owner_index * 100_000 + index
    body["metadata"] = {
        **body["metadata"],
        "name": f"{NAME}-{number:08}",
        "namespace": "bench",
        "uid": f"20000000-0000-4000-8000-{number:012}",
        "resourceVersion": str(100_000 + number),
        "creationTimestamp": WHEN,
        "labels": {**manifests.LABELS, "controller-revision-hash": HASH},
        "managedFields": [_managed("controller", 12), _managed("kubelet", 16)],
    }
    body["spec"] |= {
        "nodeName": manifests.node(index)["metadata"]["name"],
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "volumes": [{"name": "kube-api-access", "projected": {"sources": [{"serviceAccountToken": {}}]}}],
    }
    container = {"name": "agent", "image": FIRST_IMAGE, "ready": True, "restartCount": 0, "state": {"running": {}}}
    conditions = [_condition(kind) for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")]
    address = f"10.{index // 65536}.{index // 256 % 256}.{index % 256}"
    body["status"] = {
        "phase": "Running",
        "podIP": address,
        "startTime": WHEN,
        "conditions": conditions,
        "containerStatuses": [container],
    }
    return body


def _condition(kind: str) -> JSON:
    healthy = "False" if kind.endswith("Pressure") else "True"
    return {"type": kind, "status": healthy, "lastProbeTime": None, "lastTransitionTime": WHEN}


def _managed(manager: str, fields: int) -> JSON:
    inner: JSON = {f"f:field{number}": {"f:value": {}} for number in range(fields)}
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": WHEN,
        "fieldsV1": {"f:spec": inner},
    }
