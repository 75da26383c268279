"""Decides which containers get other cpu and memory, and whether `pods/resize` of Kubernetes allows that."""

from __future__ import annotations

from collections.abc import Mapping

from controller.api.base import JSONObject, Value, fields_of, items_of
from controller.api.number import canonical_quantity

MUTABLE = ("cpu", "memory")
"""Resources that `pods/resize` can change
(https://kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources/)."""


class Resizing(Value):
    resources: Mapping[str, JSONObject]
    """The new `limits` and `requests` by container, as far as they differ."""
    before: Mapping[str, JSONObject]
    """The old ones, of the same containers and resources."""
    by_restart: tuple[str, ...]
    """Containers that restart for it."""


def resizing_of(was: JSONObject, will: JSONObject) -> Resizing | str:
    """The resize from one pod spec to another with the same containers; or a text why it is not possible."""
    resources: dict[str, JSONObject] = {}
    before: dict[str, JSONObject] = {}
    by_restart: list[str] = []
    for one, other in zip(items_of(was.get("containers")), items_of(will.get("containers")), strict=True):
        old, new = fields_of(one.get("resources")), fields_of(other.get("resources"))
        if old == new:
            continue
        name = str(other.get("name", ""))
        if problem := _problem(old, new):
            return f"spec.containers[{name}].resources{problem}"
        differing = _differing(_effective(old), _effective(new))
        resources[name], before[name] = differing, _differing(_effective(new), _effective(old))
        changed = {key for amounts in differing.values() for key in fields_of(amounts)}
        if changed & _restarting(other):
            by_restart.append(name)
    earlier, later = quality_of_service(was), quality_of_service(will)
    if resources and earlier != later:
        return f"spec.containers[].resources: the QoS class would change from {earlier} to {later}"
    return Resizing(resources=resources, before=before, by_restart=tuple(by_restart))


def as_written(resources: Mapping[str, JSONObject], spec: JSONObject) -> Mapping[str, JSONObject]:
    """`resources` with each amount as this pod spec writes it: people expect `1Gi` there, not its bytes."""
    if not resources:
        return resources
    said = {
        str(one.get("name", "")): _effective(fields_of(one.get("resources"))) for one in items_of(spec["containers"])
    }
    return {
        name: {
            kind: {key: fields_of(said[name][kind]).get(key, amount) for key, amount in fields_of(amounts).items()}
            for kind, amounts in kinds.items()
        }
        for name, kinds in resources.items()
    }


def quality_of_service(spec: JSONObject) -> str:
    """The QoS class of a pod with this spec."""
    every = [
        _effective(fields_of(one.get("resources")))
        for kind in ("containers", "initContainers")
        for one in items_of(spec.get(kind))
    ]
    given = [amounts for one in every for amounts in (fields_of(one["limits"]), fields_of(one["requests"]))]
    if not any(amount_of(amounts, key) for amounts in given for key in MUTABLE):
        return "BestEffort"
    full = all(
        _amount(one, "limits", key) and _amount(one, "limits", key) == _amount(one, "requests", key)
        for one in every
        for key in MUTABLE
    )
    return "Guaranteed" if full else "Burstable"


def _problem(before: JSONObject, after: JSONObject) -> str:
    for kind in sorted((before.keys() | after.keys()) - {"limits", "requests"}):
        if before.get(kind) != after.get(kind):
            return f".{kind} changed"
    for kind in ("limits", "requests"):
        was, will = fields_of(before.get(kind)), fields_of(after.get(kind))
        for key in sorted(was.keys() | will.keys()):
            if (key in was) != (key in will):
                return f".{kind}.{key} {'added' if key in will else 'removed'}"
            if key not in MUTABLE and was[key] != will[key]:
                return f".{kind}.{key} changed"
    return ""


def _effective(resources: JSONObject) -> JSONObject:
    """Limits and requests, where a missing request is the limit, as the server fills it in."""
    limits = fields_of(resources.get("limits"))
    return {"limits": limits, "requests": {**limits, **fields_of(resources.get("requests"))}}


def _differing(before: JSONObject, after: JSONObject) -> JSONObject:
    found: JSONObject = {}
    for kind in ("limits", "requests"):
        amounts = {
            key: amount
            for key, amount in fields_of(after[kind]).items()
            if key in MUTABLE and _amount(before, kind, key) != _amount(after, kind, key)
        }
        if amounts:
            found[kind] = amounts
    return found


def _amount(resources: JSONObject, kind: str, key: str) -> str:
    return amount_of(fields_of(resources[kind]), key)


def amount_of(amounts: JSONObject, key: str) -> str:
    """One amount in canonical form; empty if there is none or it is 0, which is the same to the server."""
    amount = amounts.get(key)
    found = canonical_quantity(amount) if isinstance(amount, str | int | float) else ""
    return "" if found == "0" else found


def _restarting(container: JSONObject) -> set[str]:
    policies = items_of(container.get("resizePolicy"))
    return {str(one.get("resourceName")) for one in policies if one.get("restartPolicy") == "RestartContainer"}
