"""What containers ask for: how it is stored, which class of service it makes, and what is refused."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import InvalidOperation

from tests.beds.quantities import canonical, quantity
from tests.beds.simulator.objects import Cause, Object

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
