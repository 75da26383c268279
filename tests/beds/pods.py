"""Questions about a pod as the server shows it, each answered here only."""

from __future__ import annotations

from tests.beds.api import Object


def condition(found: Object, name: str) -> Object:
    """The condition of that name, empty when there is none. Also of objects of other kinds."""
    conditions: list[Object] = (found.get("status") or {}).get("conditions") or []
    return next((one for one in conditions if one["type"] == name), {})


def node_of(pod: Object) -> str:
    """The node that a daemon pod is on or made for: it names it before the scheduler does. Empty when none."""
    spec = pod.get("spec") or {}
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or []
    fields = [field for term in terms for field in term.get("matchFields") or []]
    return next((str(field["values"][0]) for field in fields if field["key"] == "metadata.name"), "")


def image_of(pod: Object) -> str:
    return str(pod["spec"]["containers"][0]["image"])


def is_ready(pod: Object) -> bool:
    """Whether the condition Ready is True, also of a pod that is on its way out."""
    return bool(condition(pod, "Ready").get("status") == "True")


def is_live(pod: Object) -> bool:
    """Neither on its way out nor ended."""
    phase = (pod.get("status") or {}).get("phase")
    return not pod["metadata"].get("deletionTimestamp") and phase not in ("Failed", "Succeeded")


def serves(pod: Object) -> bool:
    """Live and ready."""
    return is_live(pod) and is_ready(pod)


def controller_of(found: Object) -> Object:
    """The owner reference that controls it, empty when nobody does."""
    owners = found["metadata"].get("ownerReferences") or []
    return next((one for one in owners if one.get("controller")), {})


def stays(pod: Object, name: str) -> bool:
    """Whether the DaemonSet of that name controls it and nobody has deleted it; it may have ended."""
    owner = controller_of(pod)
    ours = owner.get("name") == name and str(owner.get("apiVersion")).startswith("apps.kruise.io/")
    return ours and not pod["metadata"].get("deletionTimestamp")
