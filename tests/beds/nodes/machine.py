"""The Node object of a machine that is only played, and its heartbeat."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from tests.beds.api import Api, Object, Refusal, Resource

ALLOCATABLE = {"cpu": "16", "memory": "64Gi", "pods": "250", "ephemeral-storage": "100Gi"}
LEASE_SECONDS = 40


def node_manifest(
    name: str,
    labels: Mapping[str, str],
    taints: Sequence[Mapping[str, str]],
    allocatable: Mapping[str, str],
    now: str,
) -> Object:
    resources = {**ALLOCATABLE, **allocatable}
    number = zlib.crc32(name.encode())
    address = f"10.1.{(number >> 8) % 256}.{number % 254 + 1}"
    standard = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**standard, **labels}},
        "spec": {"taints": [dict(taint) for taint in taints]} if taints else {},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": ready_conditions(now),
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
            "nodeInfo": _node_info(name),
        },
    }


def _node_info(name: str) -> Object:
    return {
        "kubeletVersion": "v1.36.3-played",
        "operatingSystem": "linux",
        "architecture": "amd64",
        "osImage": "none",
        "kernelVersion": "none",
        "containerRuntimeVersion": "none://0",
        "kubeProxyVersion": "",
        "machineID": name,
        "systemUUID": name,
        "bootID": name,
    }


def ready_conditions(now: str) -> list[Object]:
    return [_condition("Ready", "True", "KubeletReady", "kubelet is posting ready status", now)]


def lost_conditions(now: str) -> list[Object]:
    return [_condition("Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.", now)]


def _condition(name: str, value: str, reason: str, message: str, now: str) -> Object:
    return {
        "type": name,
        "status": value,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }


def unreachable_taints(now: str) -> list[Object]:
    key = "node.kubernetes.io/unreachable"
    return [{"key": key, "effect": effect, "timeAdded": now} for effect in ("NoSchedule", "NoExecute")]


async def heartbeat(api: Api, leases: Resource, name: str, moment: float) -> None:
    """Renew the node's Lease; a server that does not answer misses one beat."""
    renewed = datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": renewed}
    try:
        await api.patch(leases, name, {"spec": spec})
    except Refusal as refusal:
        if refusal.status == 404:
            await _first_beat(api, leases, name, spec)
    except (OSError, TimeoutError):
        return


async def _first_beat(api: Api, leases: Resource, name: str, spec: Object) -> None:
    try:
        await api.create(leases, {"metadata": {"name": name}, "spec": spec})
    except (Refusal, OSError, TimeoutError):
        return
