"""The subresource pods/resize: it takes cpu and memory of containers, and nothing else."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from tests.beds.quantities import quantity
from tests.beds.simulator import refusal
from tests.beds.simulator.kinds import PODS
from tests.beds.simulator.objects import Cause, Object
from tests.beds.simulator.refusal import Refused
from tests.beds.simulator.resources import COMPUTE, complete_resources, quality_of_service, resource_causes

FIELDS = ("initContainers", "containers")
ONLY = "only cpu and memory resources are mutable"


def resized(old: Object, new: Object, manager: str) -> Object:
    """`old` with the resources of `new`'s containers. Everything else that was sent is ignored without a word."""
    spec = dict(old["spec"])
    for field in FIELDS:
        before, after = spec.get(field) or [], new["spec"].get(field) or []
        if len(before) != len(after):
            return {**old, "spec": new["spec"]}  # what it asks for is refused
        if before:
            spec[field] = [_with_resources(*pair) for pair in zip(before, after, strict=True)]
    return {**old, "metadata": _managed(old, spec, manager), "spec": spec}


def _managed(old: Object, spec: Object, manager: str) -> Object:
    """The metadata, with who has changed which amount last. Of other writes the server keeps entries too."""
    metadata = dict(old["metadata"])
    changed = [
        (field, after["name"], kind, key)
        for field in FIELDS
        for before, after in zip(old["spec"].get(field) or [], spec.get(field) or [], strict=True)
        for kind in ("limits", "requests")
        for key, amount in _amounts(after, kind).items()
        if _amounts(before, kind).get(key) != amount
    ]
    if not changed:
        return metadata
    entries = {one["manager"]: deepcopy(one) for one in metadata.get("managedFields") or []}
    mine = entries.setdefault(
        manager, {"manager": manager, "operation": "Update", "subresource": "resize", "fieldsV1": {}}
    )
    for field, name, kind, key in changed:
        path = ("f:spec", f"f:{field}", f'k:{{"name":"{name}"}}', "f:resources", f"f:{kind}")
        for one in entries.values():
            _at(one["fieldsV1"], path).pop(f"f:{key}", None)
        _at(mine["fieldsV1"], path)[f"f:{key}"] = {}
    return metadata | {"managedFields": list(entries.values())}


def _amounts(container: Object, kind: str) -> Object:
    found: Object = (container.get("resources") or {}).get(kind) or {}
    return found


def _at(fields: Object, path: tuple[str, ...]) -> Object:
    for one in path:
        fields = fields.setdefault(one, {})
    return fields


def _with_resources(old: Object, new: Object) -> Object:
    if old["name"] != new.get("name"):
        return new
    merged = {key: value for key, value in old.items() if key != "resizePolicy"}
    merged |= {key: new[key] for key in ("resources", "resizePolicy") if key in new}
    complete_resources(merged)
    return merged


def resize_causes(new: Object, old: Object) -> list[Cause]:
    """What is wrong with a resize."""
    causes = _order_causes(new["spec"], old["spec"])
    if causes:
        return causes
    causes = resource_causes(new["spec"])
    quality = quality_of_service(old["spec"])
    if quality_of_service(new["spec"]) != quality:
        words = f'Invalid value: "{quality}": Pod QOS Class may not change as a result of resizing'
        causes.append(Cause("spec", "FieldValueInvalid", words))
    if not _is_supported(old):
        causes.append(_forbidden("spec", "Pod running on node without support for resize"))
    for field in FIELDS:
        for index, (before, after) in enumerate(
            zip(old["spec"].get(field) or [], new["spec"].get(field) or [], strict=True)
        ):
            causes += _container_causes(f"spec.{field}[{index}].resources", before, after)
    return causes


def _order_causes(new: Object, old: Object) -> list[Cause]:
    causes = []
    for field in FIELDS:
        before, after = ([one.get("name") for one in spec.get(field) or []] for spec in (old, new))
        if len(before) != len(after):
            causes.append(_forbidden(f"spec.{field}", f"{field} may not be added or removed on resize"))
        elif before != after:
            words = f"{field} may not be renamed or reordered on resize"
            causes += [
                _forbidden(f"spec.{field}[{i}].name", words) for i in range(len(before)) if before[i] != after[i]
            ]
    return causes


def _is_supported(pod: Object) -> bool:
    """The kubelet tells that it can, by the resources in the status of what runs."""
    states = (pod.get("status") or {}).get("containerStatuses") or []
    running = [one for one in states if "running" in (one.get("state") or {})]
    return not running or "resources" in running[0]


def _container_causes(path: str, old: Object, new: Object) -> list[Cause]:
    before, after = old.get("resources") or {}, new.get("resources") or {}
    causes = [
        _forbidden(f"{path}.{field}", f"resource {field} cannot be removed")
        for field in ("requests", "limits")
        if set(before.get(field) or {}) - set(after.get(field) or {})
    ]
    if _immutable_part(old) != _immutable_part(new):
        causes.append(_forbidden("spec", ONLY))
    return causes


def _immutable_part(container: Object) -> Object:
    resources: dict[str, Any] = container.get("resources") or {}
    others = {
        field: {name: amount for name, amount in (given or {}).items() if name not in COMPUTE}
        for field, given in resources.items()
    }
    return {**container, "resources": {field: found for field, found in others.items() if found}}


def _forbidden(field: str, words: str) -> Cause:
    return Cause(field, "FieldValueForbidden", f"Forbidden: {words}")


def too_big(pod: Object, node: Object | None) -> Refused | None:
    """The admission's refusal, if the pod's node could never hold it."""
    name, where = pod["metadata"]["name"], pod["spec"].get("nodeName")
    if not where:
        return None
    if node is None:
        return refusal.forbidden(PODS, name, f'node "{where}" not found')
    allocatable, short = (node.get("status") or {}).get("allocatable") or {}, []
    for resource, scale in (("cpu", 1000), ("memory", 1)):
        asked, there = _requested(pod, resource) * scale, quantity(allocatable.get(resource, "0")) * scale
        if asked > there:
            short.append(f"{resource}, requested: {int(asked)}, allocatable: {int(there)}")
    if not short:
        return None
    why = f"node didn't have enough allocatable resources: {'; '.join(short)}"
    refused = refusal.forbidden(PODS, name, why)
    refused.details = {**(refused.details or {}), "causes": [{"reason": "NodeCapacity"}]}
    return refused


def _requested(pod: Object, resource: str) -> Any:
    spec = pod["spec"]
    sidecars = [one for one in spec.get("initContainers") or [] if one.get("restartPolicy") == "Always"]
    asked = [
        ((one.get("resources") or {}).get("requests") or {}).get(resource, "0")
        for one in [*sidecars, *spec["containers"]]
    ]
    return sum(quantity(amount) for amount in asked)
