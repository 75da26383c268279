"""What kube-apiserver fills into a pod, and which pods and which changes of pods it refuses."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import InvalidOperation
from typing import Any

from tests.beds.quantities import canonical, quantity
from tests.beds.simulator.objects import Cause, Object, label_causes, required, subdomain_causes

COMPUTE = ("cpu", "memory")


def containers(spec: Object) -> list[Object]:
    """All of a pod, those of its initialization first."""
    return [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]


def complete_resources(container: Object) -> None:
    """Requests that are not told are the limits; quantities are stored in their canonical form."""
    resources = container.setdefault("resources", {})
    for field in ("limits", "requests"):
        if given := resources.get(field):
            resources[field] = {name: canonical(amount) for name, amount in given.items()}
    if limits := resources.get("limits"):
        resources["requests"] = {**limits, **(resources.get("requests") or {})}


def quality_of_service(spec: Object) -> str:
    """BestEffort, Burstable or Guaranteed."""
    asked = [container.get("resources") or {} for container in containers(spec)]
    if not any(one.get("requests") or one.get("limits") for one in asked):
        return "BestEffort"
    guaranteed = all(
        set(COMPUTE) <= set(one.get("limits") or {}) and one["limits"] == one.get("requests") for one in asked
    )
    return "Guaranteed" if guaranteed else "Burstable"


def resource_causes(spec: Object) -> list[Cause]:
    """No request is above its limit."""
    causes = []
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or []):
            resources = container.get("resources") or {}
            limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
            for name in _above(requests, limits):
                words = (
                    f'Invalid value: "{requests[name]}": must be less than or equal to {name} limit of {limits[name]}'
                )
                causes.append(Cause(f"spec.{field}[{index}].resources.requests", "FieldValueInvalid", words))
    return causes


def _above(requests: Object, limits: Object) -> Iterable[str]:
    for name in requests.keys() & limits.keys():
        try:
            if quantity(requests[name]) > quantity(limits[name]):
                yield name
        except InvalidOperation:
            continue


EVICTION_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def complete_pod(pod: Object) -> None:
    """What is done to a new one."""
    fill_pod(pod)
    pod["status"] = {"phase": "Pending", "qosClass": quality_of_service(pod["spec"])}


def fill_pod(pod: Object) -> None:
    """Defaults of the pod API and of the admission plugins DefaultTolerationSeconds and Priority, at each write."""
    spec = pod.setdefault("spec", {})
    for container in containers(spec):
        _complete_container(container, host_network=bool(spec.get("hostNetwork")))
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    spec.setdefault("priority", 0)
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = account  # the second is its former name
    tolerations = spec.setdefault("tolerations", [])
    for taint in EVICTION_TAINTS:
        if not any(_tolerates_eviction(toleration, taint) for toleration in tolerations):
            tolerations.append({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})


def _complete_container(container: dict[str, Any], *, host_network: bool) -> None:
    image = container.get("image") or ""
    tag = image.rpartition("/")[2].partition(":")[2]
    latest = "@" not in image and tag in ("", "latest")
    container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    complete_resources(container)
    for port in container.get("ports") or []:
        port.setdefault("protocol", "TCP")
        if host_network:
            port.setdefault("hostPort", port.get("containerPort"))


def _tolerates_eviction(toleration: dict[str, Any], taint: str) -> bool:
    return toleration.get("key", taint) in (taint, "") and toleration.get("effect", "") in ("", "NoExecute")


CHANGEABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def pod_rules(pod: Object, old: Object | None) -> list[Cause]:
    causes = label_causes(pod)
    if old is None:
        return causes + _new_pod_causes(pod["spec"])
    return causes if pod["spec"] is old["spec"] else causes + _changed_pod_causes(pod["spec"], old["spec"])


def _new_pod_causes(spec: Object) -> list[Cause]:
    containers = spec.get("containers") or []
    causes = [] if containers else [required("spec.containers")]
    causes += resource_causes(spec)
    if account := spec.get("serviceAccountName"):
        causes += subdomain_causes("spec.serviceAccountName", account)
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


def _changed_pod_causes(new: Object, old: Object) -> list[Cause]:
    """Images, the deadline and more tolerations; nothing else of a pod's spec may change."""
    for field in ("containers", "initContainers"):
        if len(new.get(field) or []) != len(old.get(field) or []):
            return [_forbidden(f"spec.{field}", "pod updates may not add or remove containers")]
    causes = _blank_images(new) + _deadline_causes(new, old)
    if causes:
        return causes
    if _lost_toleration(new, old):
        words = "existing toleration can not be modified except its tolerationSeconds"
        return [_forbidden("spec.tolerations", words)]
    return [] if _frozen_part(new) == _frozen_part(old) else [_forbidden("spec", CHANGEABLE)]


def _blank_images(spec: Object) -> list[Cause]:
    causes = []
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or []):
            image = container.get("image") or ""
            if image != image.strip():
                words = f'Invalid value: "{image}": must not have leading or trailing whitespace'
                causes.append(Cause(f"spec.{field}[{index}].image", "FieldValueInvalid", words))
            elif not image:
                causes.append(required(f"spec.{field}[{index}].image"))
    return 2 * causes  # it is looked at twice


def _deadline_causes(new: Object, old: Object) -> list[Cause]:
    after, before = new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    if before is None or (after is not None and after <= before):
        return []
    why = (
        "must not update from a positive integer to nil value"
        if after is None
        else "must be less than or equal to previous value"
    )
    value = "null" if after is None else after
    return [Cause("spec.activeDeadlineSeconds", "FieldValueInvalid", f"Invalid value: {value}: {why}")]


def _frozen_part(spec: Object) -> Object:
    """The spec without what may change. nodeName changes through the binding, which is not checked here."""
    frozen = {key: value for key, value in spec.items() if key not in ("tolerations", "activeDeadlineSeconds")}
    for field in ("containers", "initContainers"):
        if spec.get(field):
            frozen[field] = [{**container, "image": ""} for container in spec[field]]
    return frozen


def _lost_toleration(new: Object, old: Object) -> bool:
    kept = [_for_ever(toleration) for toleration in new.get("tolerations") or []]
    return any(_for_ever(toleration) not in kept for toleration in old.get("tolerations") or [])


def _for_ever(toleration: Object) -> Object:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _forbidden(field: str, words: str) -> Cause:
    return Cause(field, "FieldValueForbidden", f"Forbidden: {words}")
