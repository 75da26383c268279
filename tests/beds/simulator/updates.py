"""What a PUT or a patch may change of an object: the rules that hold for every kind. The subresource pods/resize
takes cpu and memory of containers, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from tests.beds.quantities import quantity
from tests.beds.simulator import refusal
from tests.beds.simulator.kinds import PODS
from tests.beds.simulator.objects import Cause, Kind, Object, Stored, immutable
from tests.beds.simulator.pods import COMPUTE, complete_resources, quality_of_service, resource_causes
from tests.beds.simulator.refusal import Refused

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


SERVER_OWNED = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


@dataclass(frozen=True)
class UpdateRequest:
    """One update that a client asks for."""

    apply: Callable[[Object], Object]
    """Makes the new object out of a copy of the old one; apiVersion and kind are not in it."""
    subresource: str = ""
    put: bool = False
    """The whole object was sent: a foreign uid is then a conflict, and the version may be missing."""
    manager: str = ""
    """Who asks for it, as a field manager."""


def settle(before: Stored, change: UpdateRequest) -> Object:
    """The object as it would be stored. Raises 409 and 422."""
    kind, name = before.kind, before.name[1]
    new = change.apply(before.copy())
    metadata = new.setdefault("metadata", {})
    _guard(before, metadata, change)
    old = before.object
    if change.subresource == "status":
        new = _status_part(kind, old, new)
    elif change.subresource == "resize":
        new = resized(old, new, change.manager)
    elif kind.status and not change.subresource:
        kind.fills(new)
        new = _main_part(old, new)
    metadata = new["metadata"]
    for field in SERVER_OWNED:
        _restore(metadata, before.metadata, field)
    metadata["uid"], metadata["name"] = before.uid, name
    metadata["resourceVersion"] = before.metadata["resourceVersion"]
    if before.name[0]:
        metadata["namespace"] = before.name[0]
    if not metadata.get("finalizers"):
        metadata.pop("finalizers", None)
    if not metadata.get("ownerReferences"):
        metadata.pop("ownerReferences", None)
    count_spec(before, new, change)
    causes = _finalizer_causes(before, metadata)
    if change.subresource in ("", "status"):
        causes += kind.rules(new, old)
    elif change.subresource == "resize":
        causes += resize_causes(new, old)
    if causes:
        raise refusal.invalid(kind, name, causes)
    return new


def count_spec(before: Stored, new: Object, change: UpdateRequest) -> None:
    """The generation that `new` has. It is counted after webhooks: what they put back was never changed."""
    if before.kind.generation and change.subresource != "binding":
        changed = _spec_part(before.object) != _spec_part(new)
        new["metadata"]["generation"] = before.metadata["generation"] + changed


def _guard(before: Stored, metadata: Object, change: UpdateRequest) -> None:
    kind, name = before.kind, before.name[1]
    uid, version = metadata.get("uid") or "", metadata.get("resourceVersion") or ""
    if change.put and uid and uid != before.uid:
        raise refusal.conflict(kind, name, refusal.wrong_uid(before, uid))
    if not version and not kind.unconditional_update:
        raise refusal.version_missing(kind, name)
    if version and version != str(before.version):
        raise refusal.conflict(kind, name, refusal.MODIFIED_MEANWHILE)
    if uid and uid != before.uid:
        raise refusal.invalid(kind, name, 2 * [immutable("metadata.uid", f'"{uid}"')])  # it is looked at twice


def _main_part(old: Object, new: Object) -> Object:
    """The main resource never touches the status."""
    merged = {key: value for key, value in new.items() if key != "status"}
    if "status" in old:
        merged["status"] = old["status"]
    return merged


def _status_part(kind: Kind, old: Object, new: Object) -> Object:
    """The status subresource: of custom kinds nothing but the status, of built-in ones metadata too."""
    merged = {key: value for key, value in old.items() if key != "status"}
    merged["metadata"] = dict(old["metadata"] if kind.custom else new["metadata"])
    if not kind.custom:
        _restore(merged["metadata"], old["metadata"], "ownerReferences")
    if "status" in new:
        merged["status"] = new["status"]
    return merged


def _restore(metadata: Object, old: Object, field: str) -> None:
    if field in old:
        metadata[field] = old[field]
    else:
        metadata.pop(field, None)


def _spec_part(found: Object) -> Object:
    return {key: value for key, value in found.items() if key not in ("metadata", "status")}


def _finalizer_causes(before: Stored, metadata: Object) -> list[Cause]:
    if "deletionTimestamp" not in before.metadata:
        return []
    known = before.metadata.get("finalizers") or []
    added = [name for name in metadata.get("finalizers") or [] if name not in known]
    if not added:
        return []
    listed = ", ".join(f'"{name}"' for name in added)
    words = (
        "Forbidden: no new finalizers can be added if the object is being deleted, "
        f"found new finalizers []string{{{listed}}}"
    )
    return 2 * [Cause("metadata.finalizers", "FieldValueForbidden", words)]  # it is looked at twice
