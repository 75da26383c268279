"""What a kubelet says of each container of a pod, and writes into the pod's status. Times are RFC 3339."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from tests.beds.api import Object
from tests.beds.objects import condition

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


def terminated(entry: Object, code: int, now: str) -> Object:
    """The container has ended."""
    state = {
        "exitCode": code,
        "reason": "Error" if code else "Completed",
        "startedAt": _since(entry, now),
        "finishedAt": now,
    }
    if "containerID" in entry:
        state["containerID"] = entry["containerID"]
    return {**entry, "ready": False, "started": False, "state": {"terminated": state}}


def initialized(pod: Object, container: Object, now: str) -> Object:
    """An init container that has done its work. It is never run again, whatever becomes of its image."""
    if (found := entries(pod).get(container["name"])) is not None:
        return found
    return terminated(started(pod, container, {}, now, ready=True), 0, now) | {"ready": True}


def environment(pod: Object, container: Object) -> dict[str, str]:
    """What a container that is started now reads in its environment: values, and labels and annotations."""
    found = {}
    for one in container.get("env") or []:
        path = ((one.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath", "")
        field, _, key = path.removeprefix("metadata.").removesuffix("']").partition("['")
        metadata = pod["metadata"].get(field) if path.startswith("metadata.") else None
        value = (metadata or {}).get(key, "") if key else metadata
        found[one["name"]] = str(one.get("value", "") if value is None else value)
    return found


def image_id(image: str) -> str:
    """The same for the same image, different for another: what tells that a container has really changed."""
    name, _, digest = image.partition("@")
    path, colon, tag = name.rpartition(":")
    repository = path if colon and "/" not in tag else name
    return f"{repository}@{digest or f'sha256:{zlib.crc32(image.encode()):064x}'}"


def is_there(image: str, there: Collection[str]) -> bool:
    """Whether a node with these images has it, by its name or by its digest."""
    return image in there or ("@" in image and image_id(image) in map(image_id, there))


def bits(pod: Object, aliases: Mapping[str, str], there: Iterable[str]) -> dict[str, str]:
    """The images of the pod that the status calls by another name: a digest by a tag, an alias by the other tag."""
    tags = {image_id(one): one for one in (aliases.get(image, image) for image in sorted(there)) if "@" not in one}
    wanted = {container["image"] for container in lasting(pod)}
    digests = {image: tags[image_id(image)] for image in wanted if "@" in image and image_id(image) in tags}
    return {**aliases, **digests}


def _container_id(pod: Object, container: Object, restarts: int) -> str:
    """Its end is a mark of the image, as containers carry a hash of what they were made from."""
    whose = zlib.crc32(f"{pod['metadata']['uid']} {container['name']}".encode())
    return f"stand-in://{whose:08x}{restarts:08x}{_mark(container['image'])}"


def _mark(image: str) -> str:
    return f"{zlib.crc32(image.encode()):08x}"


def _last_state(old: Object, now: str) -> Object:
    """How the one before has ended; one that was never seen to end was stopped."""
    state: Object = old.get("state") or {}
    if "terminated" in state:
        return state
    return terminated(old, 0, now)["state"] if "running" in state else old.get("lastState") or {}


def _since(entry: Object, now: str) -> str:
    return str(((entry.get("state") or {}).get("running") or {}).get("startedAt") or now)


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


def status(pod: Object, phase: str, states: list[Object], now: str, *, flipped: bool = False) -> Object:
    """The whole of it. `flipped`: the pod was not ready in between, which was not reported."""
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
        address = (pod.get("status") or {}).get("podIP") or _pod_ip(pod)
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


def _pod_ip(pod: Object) -> str:
    number = zlib.crc32(pod["metadata"]["uid"].encode())
    return f"10.{64 + (number >> 16) % 64}.{(number >> 8) % 256}.{number % 254 + 1}"


def gates_open(pod: Object) -> bool:
    """Whether a client has set the conditions of all readiness gates to True."""
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
