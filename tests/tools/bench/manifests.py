"""The objects that the bench creates: nodes, one DaemonSet for each peer, and the script's copy of its pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from controller.planner.node_fit import daemon_tolerations
from tests.tools.bench.api import JSON

NAME = "agent"
LABELS = {"app": NAME}
POOL, POOLS = "pool", 20
"""A label of nodes: whose number leaves this rest."""
FIRST_IMAGE, NEXT_IMAGE = "registry.k8s.io/agent:1", "registry.k8s.io/agent:2"


def node(index: int) -> JSON:
    """kwok makes it ready and gives it room."""
    name = f"node-{index:05}"
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": f"zone-{index % 3}",
        POOL: str(index % POOLS),
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def template(image: str) -> JSON:
    resources = {"requests": {"cpu": "10m", "memory": "16Mi"}}
    env = [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]
    container = {"name": "agent", "image": image, "args": ["--verbose"], "env": env, "resources": resources}
    return {"metadata": {"labels": LABELS}, "spec": {"containers": [container]}}


def daemonset(api_version: str, namespace: str) -> JSON:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}}
    return {
        "apiVersion": api_version,
        "kind": "DaemonSet",
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": LABELS},
            "template": template(FIRST_IMAGE),
            "updateStrategy": strategy,
        },
    }


def reference(owner: JSON) -> JSON:
    """Of its controller."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def daemon_pods(owner: JSON, nodes: Iterable[int]) -> Iterator[JSON]:
    """What a controller would create for `owner` on these nodes."""
    spec = template(FIRST_IMAGE)["spec"]
    tolerations = [
        {"key": one.key, "operator": one.operator, "effect": one.effect} for one in daemon_tolerations(False)
    ]
    metadata = {
        "generateName": f"{NAME}-",
        "labels": {**LABELS, "controller-revision-hash": "0123456789"},
        "ownerReferences": [reference(owner)],
    }
    for index in nodes:
        fields = [{"key": "metadata.name", "operator": "In", "values": [node(index)["metadata"]["name"]]}]
        required = {"nodeSelectorTerms": [{"matchFields": fields}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        body = {**spec, "affinity": affinity, "tolerations": tolerations}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}
