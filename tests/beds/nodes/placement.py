"""Which node a pod may run on: the scheduler's filters that matter for daemon pods, as a function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

from tests.beds.quantities import quantity

Object: TypeAlias = dict[str, Any]

UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def place(pod: Object, nodes: Sequence[Object], on_node: dict[str, list[Object]]) -> tuple[str, str]:
    """The node for `pod` and "", or "" and the scheduler's words why there is none.

    `on_node`: the pods that each node has, without those that have ended.
    """
    reasons: Counter[str] = Counter()
    fitting = []
    for node in nodes:
        reason = _refusal(pod, node, on_node.get(node["metadata"]["name"], []))
        if reason:
            reasons[reason] += 1
        else:
            fitting.append(node["metadata"]["name"])
    if fitting:
        return min(fitting, key=lambda name: (len(on_node.get(name, [])), name)), ""
    listed = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    return "", f"0/{len(nodes)} nodes are available: {listed or 'there are none'}."


def _refusal(pod: Object, node: Object, others: list[Object]) -> str:
    """Why `pod` cannot go to `node`, or ""."""
    spec = pod["spec"]
    if not _is_selected(spec, node):
        return "node(s) didn't match Pod's node affinity/selector"
    if taint := _untolerated(spec.get("tolerations") or [], node):
        return f"node(s) had untolerated taint(s) {{{taint['key']}: {taint.get('value', '')}}}"
    if host_ports(pod) & {port for other in others for port in host_ports(other)}:
        return "node(s) didn't have free ports for the requested pod ports"
    return _shortage(pod, node, others)


def _is_selected(spec: Object, node: Object) -> bool:
    labels: dict[str, str] = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(_term_holds(term, labels, fields) for term in required.get("nodeSelectorTerms") or [])


def _term_holds(term: Object, labels: dict[str, str], fields: dict[str, str]) -> bool:
    expressions, of_fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not of_fields:
        return False
    return all(_holds(item, labels) for item in expressions) and all(_holds(item, fields) for item in of_fields)


def _holds(requirement: Object, found: dict[str, str]) -> bool:
    value, values = found.get(requirement["key"]), requirement.get("values") or []
    match requirement["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and int(value) > int(values[0])
        case _:
            return value is not None and int(value) < int(values[0])


def _untolerated(tolerations: list[Object], node: Object) -> Object | None:
    taints = list(node["spec"].get("taints") or [])
    if node["spec"].get("unschedulable") and not any(taint["key"] == UNSCHEDULABLE["key"] for taint in taints):
        taints.append(UNSCHEDULABLE)
    for taint in taints:
        hard = taint.get("effect") in ("NoSchedule", "NoExecute")
        if hard and not any(_tolerates(toleration, taint) for toleration in tolerations):
            return dict(taint)
    return None


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if not toleration.get("key"):
        return toleration.get("operator") == "Exists"
    if toleration["key"] != taint["key"]:
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")


def host_ports(pod: Object) -> set[tuple[str, int]]:
    """Protocol and number of each port that the pod takes from its node."""
    return {
        (port.get("protocol", "TCP"), port["hostPort"])
        for container in pod["spec"].get("containers") or []
        for port in container.get("ports") or []
        if port.get("hostPort")
    }


def _shortage(pod: Object, node: Object, others: list[Object]) -> str:
    allocatable: dict[str, Any] = (node.get("status") or {}).get("allocatable") or {}
    if "pods" in allocatable and len(others) + 1 > quantity(allocatable["pods"]):
        return "Too many pods"
    for resource in ("cpu", "memory"):
        if resource not in allocatable or not (wanted := _requested([pod], resource)):
            continue
        if wanted + _requested(others, resource) > quantity(allocatable[resource]):
            return f"Insufficient {resource}"
    return ""


def _requested(pods: Iterable[Object], resource: str) -> Decimal:
    total = Decimal(0)
    for pod in pods:
        for container in pod["spec"].get("containers") or []:
            asked = ((container.get("resources") or {}).get("requests") or {}).get(resource)
            total += quantity(asked) if asked else 0
    return total
