"""What the CRD may have let in although nothing can be done with it.

Rules and defaults live in the CRD. Here only objects are caught that the planner could do nothing with, or that
it could only misread.
"""

from __future__ import annotations

import msgspec

from controller.api import number, selector
from controller.api.daemonset import DaemonSet
from controller.api.text import LONGEST_ITEM, shortened
from controller.planner.eligibility import Rules
from controller.planner.placement_fields import placement_problems


def compiled(daemonset: DaemonSet) -> Rules:
    """Of this generation. Where nothing can be done with the spec, rules that say why."""
    found, spec, rolling = problems(daemonset), daemonset.spec, daemonset.rolling_update
    if not found:
        try:
            return Rules(spec.template, rolling.selector if rolling is not None else None, spec.selector)
        except (ValueError, msgspec.ValidationError) as error:
            found = (f"spec.template: {shortened(str(error), LONGEST_ITEM)}",)
    return Rules({}, problems=found)


def problems(daemonset: DaemonSet) -> tuple[str, ...]:
    """Each names the field, what is wrong with it, and what would be right."""
    spec = daemonset.spec
    found: list[str] = []
    if spec.selector.empty:
        found.append(
            "spec.selector: must not be empty, it would select every pod; set matchLabels or matchExpressions"
        )
    else:
        found += _selector_problems(daemonset)
    rolling = daemonset.rolling_update
    limits = {"spec.burstReplicas": spec.burst_replicas}
    if rolling is not None:
        base = "spec.updateStrategy.rollingUpdate"
        limits |= {
            f"{base}.maxUnavailable": rolling.max_unavailable,
            f"{base}.maxSurge": rolling.max_surge,
            f"{base}.partition": rolling.partition,
        }
        if rolling.selector is not None:
            try:
                selector.parse(rolling.selector)
            except ValueError as error:
                found.append(f"{base}.selector: {error}")
    found += [
        f"{field}: {value!r} is neither a whole number nor a percentage such as 30%"
        for field, value in limits.items()
        if value is not None and not number.is_well_formed(value)
    ]
    return (*found, *placement_problems(spec.template))


def _selector_problems(daemonset: DaemonSet) -> list[str]:
    meta = daemonset.spec.template.get("metadata")
    labels = meta.get("labels") if isinstance(meta, dict) else None
    texts = {key: str(value) for key, value in labels.items()} if isinstance(labels, dict) else {}
    try:
        if selector.parse(daemonset.spec.selector)(texts):
            return []
    except ValueError as error:
        return [f"spec.selector: {error}"]
    return ["spec.selector: does not match spec.template.metadata.labels; its pods would not be found again"]
