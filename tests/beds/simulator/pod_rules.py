"""What kube-apiserver fills into a pod, and which pods and changes of pods it refuses."""

from __future__ import annotations

from typing import Any

from tests.beds.simulator.objects import Cause, Object
from tests.beds.simulator.syntax import label_causes, required

CHANGEABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`, `spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)

EVICTION_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def complete_pod(pod: Object) -> None:
    """Defaults of the pod API and of the admission plugins DefaultTolerationSeconds and Priority."""
    spec = pod.setdefault("spec", {})
    for container in [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]:
        _complete_container(container, host_network=bool(spec.get("hostNetwork")))
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    spec.setdefault("priority", 0)
    tolerations = spec.setdefault("tolerations", [])
    for taint in EVICTION_TAINTS:
        if not any(_tolerates_eviction(toleration, taint) for toleration in tolerations):
            tolerations.append({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
    pod["status"] = {"phase": "Pending", "qosClass": _qos_class(spec)}


def _complete_container(container: dict[str, Any], *, host_network: bool) -> None:
    image = container.get("image") or ""
    tag = image.rpartition("/")[2].partition(":")[2]
    latest = "@" not in image and tag in ("", "latest")
    container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    resources = container.setdefault("resources", {})
    if limits := resources.get("limits"):
        resources["requests"] = {**limits, **(resources.get("requests") or {})}
    for port in container.get("ports") or []:
        port.setdefault("protocol", "TCP")
        if host_network:
            port.setdefault("hostPort", port.get("containerPort"))


def _tolerates_eviction(toleration: dict[str, Any], taint: str) -> bool:
    return toleration.get("key", taint) in (taint, "") and toleration.get("effect", "") in ("", "NoExecute")


def _qos_class(spec: Object) -> str:
    resources = [container.get("resources") or {} for container in spec.get("containers") or []]
    if not any(found.get("requests") or found.get("limits") for found in resources):
        return "BestEffort"
    guaranteed = all(
        {"cpu", "memory"} <= set(found.get("limits") or {}) and found["limits"] == found.get("requests")
        for found in resources
    )
    return "Guaranteed" if guaranteed else "Burstable"


def pod_rules(pod: Object, old: Object | None) -> list[Cause]:
    causes = label_causes(pod)
    if old is None:
        return causes + _new_pod_causes(pod["spec"])
    if _frozen_part(pod["spec"]) != _frozen_part(old["spec"]) or _lost_toleration(pod["spec"], old["spec"]):
        causes.append(Cause("spec", "FieldValueForbidden", f"Forbidden: {CHANGEABLE}"))
    return causes


def _new_pod_causes(spec: Object) -> list[Cause]:
    containers = spec.get("containers") or []
    causes = [] if containers else [required("spec.containers")]
    volumes = {volume.get("name") for volume in spec.get("volumes") or []}
    seen: set[str] = set()
    for index, container in enumerate(containers):
        path = f"spec.containers[{index}]"
        if not container.get("name"):
            causes.append(required(f"{path}.name"))
        elif container["name"] in seen:
            causes.append(Cause(f"{path}.name", "FieldValueDuplicate", f'Duplicate value: "{container["name"]}"'))
        if not container.get("image"):
            causes.append(required(f"{path}.image"))
        for number, mount in enumerate(container.get("volumeMounts") or []):
            if (name := mount.get("name")) not in volumes:
                field = f"{path}.volumeMounts[{number}].name"
                causes.append(Cause(field, "FieldValueNotFound", f'Not found: "{name}"'))
        seen.add(container.get("name") or "")
    return causes


def _frozen_part(spec: Object) -> Object:
    """The spec without what may change. nodeName changes through the binding, which is not checked here."""
    frozen = {key: value for key, value in spec.items() if key not in ("tolerations", "activeDeadlineSeconds")}
    for field in ("containers", "initContainers"):
        if spec.get(field):
            frozen[field] = [{**container, "image": ""} for container in spec[field]]
    return frozen


def _lost_toleration(new: Object, old: Object) -> bool:
    kept = new.get("tolerations") or []
    return any(toleration not in kept for toleration in old.get("tolerations") or [])
