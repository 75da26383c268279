"""What a kubelet writes into the status of a pod. Times are RFC 3339."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, TypeAlias

from tests.beds.nodes.containers import (
    NO_ALIASES,
    containers,
    entries,
    initialized,
    is_as_asked,
    is_running,
    lasting,
    started,
    terminated,
    waiting,
)
from tests.beds.pods import condition

Object: TypeAlias = dict[str, Any]


def not_started(pod: Object, reason: str, message: str, now: str) -> Object:
    """ContainerCreating, ErrImagePull …"""
    states = [waiting(container, {}, reason, message, now) for container in lasting(pod)]
    return status(pod, "Pending", states, now)


def running(pod: Object, now: str, *, ready: bool, aliases: Mapping[str, str] = NO_ALIASES) -> Object:
    """Every container runs what the spec asks for; one that does so already goes on."""
    found, states = entries(pod), []
    for container in lasting(pod):
        old = found.get(container["name"], {})
        same = is_running(old) and is_as_asked(old, container)
        new = old if same else started(pod, container, old, now, ready=ready, aliases=aliases)
        states.append({**new, "ready": ready})
    return status(pod, "Running", states, now)


def crashed(pod: Object, now: str) -> Object:
    """The containers have exited with 1 and wait for their next start."""
    found, states = entries(pod), []
    for container in lasting(pod):
        old = found.get(container["name"]) or started(pod, container, {}, now, ready=False)
        words = f"back-off restarting failed container {container['name']}"
        states.append(waiting(container, terminated(old, 1, now), "CrashLoopBackOff", words, now))
    return status(pod, "Running", states, now)


def ended(pod: Object, phase: str, reason: str, message: str, now: str) -> Object:
    """Failed or Succeeded, for good."""
    code, found = 0 if phase == "Succeeded" else 1, entries(pod)
    states = [
        terminated(found.get(container["name"]) or waiting(container, {}, "", "", now), code, now)
        for container in lasting(pod)
    ]
    result = status(pod, phase, states if found or code == 0 else [], now)
    return result | {"reason": reason, "message": message} if reason else result


def status(
    pod: Object, phase: str, states: list[Object], now: str, *, address: str = "", flipped: bool = False
) -> Object:
    """The whole of it. `address`: a new one; `flipped`: the pod was not ready in between, though nobody was told."""
    unready = [state["name"] for state in states if not state["ready"]]
    all_ready = bool(states) and not unready
    conditions = {
        "PodReadyToStartContainers": phase == "Running",
        "Initialized": True,
        "Ready": all_ready and gates_open(pod),
        "ContainersReady": all_ready,
        "PodScheduled": True,
    }
    why = _reasons(pod, phase, unready)
    lasted = {one["name"] for one in containers(pod)}
    found: Object = {
        "phase": phase,
        "conditions": [
            _condition(pod, name, value=value, why=why, now=now, flipped=flipped)
            for name, value in conditions.items()
        ],
        "containerStatuses": sorted((one for one in states if one["name"] in lasted), key=lambda one: one["name"]),
        "hostIP": "10.0.0.1",
        "startTime": (pod.get("status") or {}).get("startTime") or now,
    }
    if inits := pod["spec"].get("initContainers"):
        by_name = {one["name"]: one for one in states}
        found["initContainerStatuses"] = [by_name.get(one["name"]) or initialized(pod, one, now) for one in inits]
    if "generation" in pod["metadata"]:
        found["observedGeneration"] = pod["metadata"]["generation"]
    if phase == "Running":
        address = address or (pod.get("status") or {}).get("podIP") or pod_ip(pod)
        found |= {"podIP": address, "podIPs": [{"ip": address}]}
    return found


def _reasons(pod: Object, phase: str, unready: list[str]) -> dict[str, tuple[str, str]]:
    """Reason and message of Ready and ContainersReady, when they are False."""
    if phase in ("Succeeded", "Failed"):
        reason = ("PodCompleted" if phase == "Succeeded" else "PodFailed", "")
    else:
        reason = ("ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]")
    if unready or phase in ("Succeeded", "Failed"):
        return {"Ready": reason, "ContainersReady": reason}
    return {"Ready": ("ReadinessGatesNotReady", ", ".join(_closed(pod))), "ContainersReady": reason}


def _condition(
    pod: Object, name: str, *, value: bool, why: dict[str, tuple[str, str]], now: str, flipped: bool
) -> Object:
    word = "True" if value else "False"
    old = condition(pod, name)
    moved = old.get("status") != word or (flipped and name in why)
    since = old.get("lastTransitionTime") or now
    found: Object = {
        "type": name,
        "status": word,
        "lastProbeTime": None,
        "lastTransitionTime": now if moved else since,
    }
    if "generation" in pod["metadata"]:
        found["observedGeneration"] = pod["metadata"]["generation"]
    reason, message = why.get(name, ("", "")) if not value else ("", "")
    if reason or old.get("reason"):
        found |= {"reason": reason or None, "message": message or None}  # null takes an old one away
    return found


def pod_ip(pod: Object, sandbox: int = 0) -> str:
    """A pod has another one after its machine was switched off."""
    number = zlib.crc32(pod["metadata"]["uid"].encode()) + sandbox
    return f"10.{64 + (number >> 16) % 64}.{(number >> 8) % 256}.{number % 254 + 1}"


def gates_open(pod: Object) -> bool:
    """Whether somebody has set the conditions of all readiness gates to True."""
    return not _closed(pod)


def _closed(pod: Object) -> list[str]:
    """What is missing, in the kubelet's words."""
    words = []
    for gate in pod["spec"].get("readinessGates") or []:
        name = gate["conditionType"]
        found = condition(pod, name).get("status")
        if found is None:
            words.append(f'corresponding condition of pod readiness gate "{name}" does not exist.')
        elif found != "True":
            words.append(f'the status of pod readiness gate "{name}" is not "True", but {found}')
    return words
