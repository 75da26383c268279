"""The mistakes in a spec that the CRD cannot refuse and the planner could not use or would misread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from controller.api import formats, selector
from controller.api.daemonset import DaemonSet, RollingUpdate
from controller.api.formats import LONGEST_ITEM, listed, truncated
from controller.api.names import LONGEST_SOAK, OWN_LABELS
from controller.api.objects import JSONObject, fields_of
from controller.api.pod import AffinityView
from controller.api.selector import Requirement, is_label_key, is_label_value, is_subdomain, requirement
from controller.planner.checks import query_problem
from controller.planner.node_fit import Placement, PlacementSpec, Rules, Toleration, UpdateOrder

_SPEC: Final = "spec.template.spec"
_REQUIRED: Final = f"{_SPEC}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_EFFECTS: Final = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")
_FIELDS: Final = ("nodeSelector", "affinity", "tolerations")


def compiled(daemonset: DaemonSet) -> Rules:
    """The rules of this generation, with `problems` if the spec cannot be used."""
    found, spec, rolling = problems(daemonset), daemonset.spec, daemonset.rolling_update
    if not found:
        try:
            update = rolling or RollingUpdate()
            return Rules(spec.template, update.selector, spec.selector, order=update.order, topology=update.topology)
        except (ValueError, msgspec.ValidationError) as error:
            found = (f"spec.template: {truncated(str(error), LONGEST_ITEM)}",)
    return Rules({}, problems=found)


def problems(daemonset: DaemonSet) -> tuple[str, ...]:
    """The problems of the spec. Each text names the field, the mistake, and what is right."""
    spec = daemonset.spec
    found: list[str] = []
    if spec.selector.empty:
        found.append(
            "spec.selector: must not be empty, it would select every pod; set matchLabels or matchExpressions"
        )
    else:
        found += _selector_problems(daemonset)
    rolling = daemonset.rolling_update
    limits: dict[str, formats.IntOrPercent | None] = {"spec.burstReplicas": spec.burst_replicas}
    if rolling is not None:
        base = "spec.updateStrategy.rollingUpdate"
        limits |= {
            f"{base}.maxUnavailable": rolling.max_unavailable,
            f"{base}.maxSurge": rolling.max_surge,
            f"{base}.partition": rolling.partition,
        }
        limits |= _progressive_limits(rolling, base)
        found += _progressive_problems(rolling, base)
        if rolling.selector is not None:
            try:
                selector.parse(rolling.selector)
            except ValueError as error:
                found.append(f"{base}.selector: {error}")
    found += [
        f"{field}: {value!r} is neither a whole number nor a percentage such as 30%"
        for field, value in limits.items()
        if value is not None and not formats.is_well_formed(value)
    ]
    return (*found, *_placement(spec.template))


def _progressive_limits(rolling: RollingUpdate, base: str) -> dict[str, formats.IntOrPercent | None]:
    found: dict[str, formats.IntOrPercent | None] = {
        f"{base}.steps[{index}].nodes": step.nodes for index, step in enumerate(rolling.steps)
    }
    if rolling.unreachable_nodes is not None:
        found[f"{base}.unreachableNodes.leaveOut"] = rolling.unreachable_nodes.leave_out
    if rolling.on_failure is not None:
        found[f"{base}.onFailure.unavailableNodes"] = rolling.on_failure.unavailable_nodes
    if rolling.topology is not None:
        found[f"{base}.topology.maxUnavailable"] = rolling.topology.max_unavailable
    return found


def _progressive_problems(rolling: RollingUpdate, base: str) -> Iterator[str]:
    durations = {f"{base}.steps[{index}].soak": step.soak for index, step in enumerate(rolling.steps)}
    if rolling.on_failure is not None:
        durations[f"{base}.onFailure.after"] = rolling.on_failure.after
    for field, duration in durations.items():
        try:
            if duration and formats.seconds(duration) > LONGEST_SOAK:
                yield f"{field}: {duration!r} is longer than 30 days"
        except ValueError as error:
            yield f"{field}: {error}"
    for index, check in enumerate(rolling.checks):
        if problem := query_problem(check.query):
            yield f"{base}.checks[{index}].query: {problem}"
    if (topology := rolling.topology) is not None and not is_label_key(topology.key):
        yield f"{base}.topology.key: {topology.key!r} is not a label key"
    try:
        UpdateOrder(rolling.order)
    except ValueError as error:
        yield f"{base}.{error}"


def _selector_problems(daemonset: DaemonSet) -> list[str]:
    asked = daemonset.spec.selector
    keys = {*(asked.match_labels or ()), *(expression.key for expression in asked.match_expressions or ())}
    if own := sorted(keys & OWN_LABELS):
        return [f"spec.selector: must not ask for {listed(own)}: the controller itself writes that label to its pods"]
    labels = fields_of(fields_of(daemonset.spec.template.get("metadata")).get("labels"))
    texts = {key: str(value) for key, value in labels.items()}
    try:
        if selector.parse(daemonset.spec.selector)(texts):
            return []
    except ValueError as error:
        return [f"spec.selector: {error}"]
    return ["spec.selector: does not match spec.template.metadata.labels; its pods would not be found again"]


def _placement(template: JSONObject) -> tuple[str, ...]:
    """Placement fields that cannot be read: if a typing error were read as "no node", all pods would be deleted. The
    server checks them in apps/v1, but not in this template, and a dry run of a pod lacks the required affinity. An
    empty term is valid and matches no node. A Gt or Lt value must be a number, although the server accepts others."""
    if not any(map(fields_of(template.get("spec")).get, _FIELDS)):
        return ()
    try:
        spec = msgspec.convert(template, Placement).spec
    except msgspec.ValidationError as error:
        return (f"spec.template: {error}",)
    return (*_node_selector(spec), *_affinity(spec.affinity), *_tolerations(spec.tolerations or ()))


def _node_selector(spec: PlacementSpec) -> Iterator[str]:
    for key, value in (spec.node_selector or {}).items():
        if not is_label_key(key):
            yield f"{_SPEC}.nodeSelector: {key!r} is not a label key"
        elif not is_label_value(value):
            yield f"{_SPEC}.nodeSelector: {value!r} of {key!r} is not a label value"


def _affinity(affinity: AffinityView | None) -> Iterator[str]:
    required = affinity.node_affinity.required if affinity and affinity.node_affinity else None
    if required is None:
        return
    if not required.node_selector_terms:
        yield f"{_REQUIRED}: needs at least one term; leave the required affinity out to have pods on every node"
    for index, term in enumerate(required.node_selector_terms or ()):
        for place, expression in enumerate(term.match_expressions or ()):
            yield from _expression(f"{_REQUIRED}[{index}].matchExpressions[{place}]", expression)
        for place, expression in enumerate(term.match_fields or ()):
            yield from _field(f"{_REQUIRED}[{index}].matchFields[{place}]", expression)


def _expression(path: str, expression: Requirement) -> Iterator[str]:
    values = expression.values or ()
    if not is_label_key(expression.key):
        yield f"{path}.key: {expression.key!r} is not a label key"
    elif expression.operator not in _OPERATORS:
        yield f"{path}.operator: {expression.operator!r} is not one of {', '.join(_OPERATORS)}"
    elif wrong := next((value for value in values if not is_label_value(value)), ""):
        yield f"{path}.values: {wrong!r} is not a label value"
    else:
        try:
            requirement(expression)
        except ValueError as error:
            yield f"{path}.values: {error}"


def _field(path: str, expression: Requirement) -> Iterator[str]:
    values = expression.values or ()
    if expression.key != "metadata.name":
        yield f"{path}.key: {expression.key!r} is not metadata.name, the only field that a node is chosen by"
    elif expression.operator not in ("In", "NotIn"):
        yield f"{path}.operator: {expression.operator!r} is not one of In, NotIn"
    elif len(values) != 1:
        yield f"{path}.values: needs exactly one name; give each node a term of its own"
    elif not is_subdomain(values[0]):
        yield f"{path}.values: {values[0]!r} is not the name of a node"


def _tolerations(tolerations: Iterable[Toleration]) -> Iterator[str]:
    for index, toleration in enumerate(tolerations):
        if problem := _toleration_problem(toleration):
            yield f"{_SPEC}.tolerations[{index}].{problem}"


def _toleration_problem(toleration: Toleration) -> str:
    if toleration.operator not in ("", "Equal", "Exists", "Gt", "Lt"):
        return f"operator: {toleration.operator!r} is not one of Equal, Exists, Gt, Lt"
    if toleration.effect not in _EFFECTS:
        return f"effect: {toleration.effect!r} is not one of NoSchedule, PreferNoSchedule, NoExecute"
    if toleration.operator == "Exists" and toleration.value:
        return "value: must be empty when the operator is Exists"
    if not toleration.key:
        return "" if toleration.operator == "Exists" else "operator: must be Exists when the key is empty"
    if not is_label_key(toleration.key):
        return f"key: {toleration.key!r} is not a label key"
    if toleration.operator in ("Gt", "Lt"):
        return (
            ""
            if formats.decimal_integer(toleration.value) is not None
            else f"value: {toleration.value!r} is not a decimal integer"
        )
    return "" if is_label_value(toleration.value) else f"value: {toleration.value!r} is not a label value"
