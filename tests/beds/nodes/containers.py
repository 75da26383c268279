"""What a kubelet says of each container of a pod. Times are RFC 3339."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

Object: TypeAlias = dict[str, Any]

NO_ALIASES: Mapping[str, str] = MappingProxyType({})


def containers(pod: Object) -> list[Object]:
    found: list[Object] = pod["spec"].get("containers") or []
    return found


def sidecars(pod: Object) -> list[Object]:
    """Init containers that run as long as the pod."""
    return [one for one in pod["spec"].get("initContainers") or [] if one.get("restartPolicy") == "Always"]


def lasting(pod: Object) -> list[Object]:
    """All that is started again when it ends, in the order of their start."""
    return [*sidecars(pod), *containers(pod)]


def entries(pod: Object) -> dict[str, Object]:
    """What the status says now, by the name of the container."""
    status = pod.get("status") or {}
    lists = (status.get("initContainerStatuses") or [], status.get("containerStatuses") or [])
    return {entry["name"]: entry for found in lists for entry in found}


def is_running(entry: Object) -> bool:
    return "running" in (entry.get("state") or {})


def is_as_asked(entry: Object, container: Object) -> bool:
    """Whether the container was started with the image of the spec, to the letter: an alias is another one."""
    return bool(entry.get("containerID", "").endswith(_mark(container["image"])))


def started(
    pod: Object, container: Object, old: Object, now: str, *, ready: bool, aliases: Mapping[str, str] = NO_ALIASES
) -> Object:
    """A new container, after an `old` one if there was any."""
    restarts = old.get("restartCount", 0) + (1 if old.get("containerID") else 0)
    bits = aliases.get(container["image"], container["image"])
    return {
        "name": container["name"],
        "image": bits,
        "imageID": image_id(bits),
        "containerID": _container_id(pod, container, restarts),
        "ready": ready,
        "started": True,
        "restartCount": restarts,
        "state": {"running": {"startedAt": now}},
        "lastState": _last_state(old, now),
        **told_resources(container.get("resources") or {}),
    }


def told_resources(resources: Object) -> Object:
    """What runs and what is reserved for it, both in one."""
    reserved = {"allocatedResources": resources["requests"]} if resources.get("requests") else {}
    return {"resources": resources, **reserved}


def waiting(container: Object, old: Object, reason: str, message: str, now: str) -> Object:
    """Not running: ContainerCreating, ErrImagePull … What the last container was stays to be seen."""
    return {
        "name": container["name"],
        "image": old.get("image", container["image"]),
        "imageID": old.get("imageID", ""),
        "ready": False,
        "started": False,
        "restartCount": old.get("restartCount", 0),
        "state": {"waiting": {"reason": reason, **({"message": message} if message else {})}},
        "lastState": _last_state(old, now) if old.get("containerID") else {},
        **({"containerID": old["containerID"]} if old.get("containerID") else {}),
        **told_resources(container.get("resources") or {}),
    }


def terminated(entry: Object, code: int, now: str, *, reason: str = "") -> Object:
    """The container has ended."""
    words = reason or ("Completed" if code == 0 else "Error")
    state = {"exitCode": code, "reason": words, "startedAt": _since(entry, now), "finishedAt": now}
    if "containerID" in entry:
        state["containerID"] = entry["containerID"]
    return {**entry, "ready": False, "started": False, "state": {"terminated": state}}


def initialized(pod: Object, container: Object, now: str) -> Object:
    """An init container that has done its work. It is never run again, whatever becomes of its image."""
    if (found := entries(pod).get(container["name"])) is not None:
        return found
    return terminated(started(pod, container, {}, now, ready=True), 0, now) | {"ready": True}


def image_id(image: str) -> str:
    """The same for the same image, different for another: what tells that a container has really changed."""
    return f"{image.partition('@')[0].rpartition(':')[0] or image}@sha256:{zlib.crc32(image.encode()):064x}"


def _container_id(pod: Object, container: Object, restarts: int) -> str:
    """Its end is a mark of the image, as containers carry a hash of what they were made from."""
    whose = zlib.crc32(f"{pod['metadata']['uid']} {container['name']}".encode())
    return f"stand-in://{whose:08x}{restarts:08x}{_mark(container['image'])}"


def _mark(image: str) -> str:
    return f"{zlib.crc32(image.encode()):08x}"


def _last_state(old: Object, now: str) -> Object:
    """How the one before has ended; one that was never seen to end was told to."""
    state: Object = old.get("state") or {}
    if "terminated" in state:
        return state
    return terminated(old, 0, now)["state"] if "running" in state else old.get("lastState") or {}


def _since(entry: Object, now: str) -> str:
    return str(((entry.get("state") or {}).get("running") or {}).get("startedAt") or now)
