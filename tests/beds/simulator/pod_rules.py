"""Which pods and which changes of pods kube-apiserver refuses."""

from __future__ import annotations

from tests.beds.simulator.objects import Cause, Object
from tests.beds.simulator.resources import resource_causes
from tests.beds.simulator.syntax import label_causes, required, subdomain_causes

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
