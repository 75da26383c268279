"""What a kubelet writes into the status of a pod. Times are RFC 3339."""

from __future__ import annotations

import zlib
from typing import Any, TypeAlias

from tests.beds.pods import condition

Object: TypeAlias = dict[str, Any]


def containers(pod: Object) -> list[Object]:
    found: list[Object] = pod["spec"].get("containers") or []
    return found


def waiting(pod: Object, reason: str, message: str, now: str) -> Object:
    """Not started: ContainerCreating, ErrImagePull …"""
    states = [
        _container(pod, container, {"waiting": {"reason": reason, "message": message}}, ready=False)
        for container in containers(pod)
    ]
    return _status(pod, "Pending", states, now)


def running(pod: Object, now: str, *, ready: bool) -> Object:
    states = []
    for container in containers(pod):
        old = _old(pod, container["name"])
        state = old.get("state") or {}
        same = "running" in state and old.get("image") == container["image"]
        states.append(_container(pod, container, state if same else {"running": {"startedAt": now}}, ready=ready))
    return _status(pod, "Running", states, now)


def crashed(pod: Object, now: str) -> Object:
    """The containers have exited with 1 and wait for their next start."""
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "startedAt": now, "finishedAt": now}}
    states = []
    for container in containers(pod):
        words = {"reason": "CrashLoopBackOff", "message": f"back-off restarting failed container {container['name']}"}
        state = _container(pod, container, {"waiting": words}, ready=False)
        states.append(state | {"restartCount": state["restartCount"] + 1, "lastState": ended})
    return _status(pod, "Running", states, now)


def ended(pod: Object, phase: str, reason: str, message: str, now: str) -> Object:
    """Failed or Succeeded, for good."""
    code = 0 if phase == "Succeeded" else 1
    words = {"exitCode": code, "reason": "Completed" if code == 0 else "Error", "startedAt": now, "finishedAt": now}
    started = bool((pod.get("status") or {}).get("containerStatuses"))
    states = [_container(pod, container, {"terminated": words}, ready=False) for container in containers(pod)]
    status = _status(pod, phase, states if started or code == 0 else [], now)
    return status | {"reason": reason, "message": message} if reason else status


def _status(pod: Object, phase: str, states: list[Object], now: str) -> Object:
    all_ready = bool(states) and all(state["ready"] for state in states)
    conditions = {
        "PodReadyToStartContainers": phase == "Running",
        "Initialized": True,
        "Ready": all_ready and gates_open(pod),
        "ContainersReady": all_ready,
        "PodScheduled": True,
    }
    status: Object = {
        "phase": phase,
        "conditions": [
            _condition(pod, name, value=value, phase=phase, now=now) for name, value in conditions.items()
        ],
        "containerStatuses": states,
        "hostIP": "10.0.0.1",
        "startTime": (pod.get("status") or {}).get("startTime") or now,
    }
    if phase == "Running":
        address = pod_ip(pod)
        status |= {"podIP": address, "podIPs": [{"ip": address}]}
    return status


def _condition(pod: Object, name: str, *, value: bool, phase: str, now: str) -> Object:
    word = "True" if value else "False"
    old = condition(pod, name)
    since = old["lastTransitionTime"] if old.get("status") == word and old.get("lastTransitionTime") else now
    found: Object = {"type": name, "status": word, "lastProbeTime": None, "lastTransitionTime": since}
    if not value and name in ("Ready", "ContainersReady"):
        found["reason"] = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase, "ContainersNotReady")
    return found


def _container(pod: Object, container: Object, state: Object, *, ready: bool) -> Object:
    old = _old(pod, container["name"])
    image = container["image"]
    is_running = "running" in state
    was = old.get("state") or {}
    restarted = is_running and ("terminated" in was or ("running" in was and old.get("image") != image))
    return {
        "name": container["name"],
        "image": image,
        "imageID": image_id(image) if is_running else old.get("imageID", ""),
        "containerID": f"stand-in://{pod['metadata']['uid']}/{container['name']}" if is_running else "",
        "ready": ready and is_running,
        "started": is_running,
        "restartCount": old.get("restartCount", 0) + (1 if restarted else 0),
        "state": state,
        "lastState": old.get("lastState") or {},
    }


def _old(pod: Object, name: str) -> Object:
    states: list[Object] = (pod.get("status") or {}).get("containerStatuses") or []
    return next((state for state in states if state["name"] == name), {})


def image_id(image: str) -> str:
    """The same for the same image, different for another: what tells that a container has really changed."""
    return f"{image.partition('@')[0].rpartition(':')[0] or image}@sha256:{zlib.crc32(image.encode()):064x}"


def pod_ip(pod: Object) -> str:
    number = zlib.crc32(pod["metadata"]["uid"].encode())
    return f"10.{64 + (number >> 16) % 64}.{(number >> 8) % 256}.{number % 254 + 1}"


def gates_open(pod: Object) -> bool:
    """Whether somebody has set the conditions of all readiness gates to True."""
    gates = pod["spec"].get("readinessGates") or []
    return all(condition(pod, gate["conditionType"]).get("status") == "True" for gate in gates)
