"""What a node can give to pods, and what it lacks for one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeAlias

from tests.beds.quantities import quantity

Object: TypeAlias = dict[str, Any]

UNITS = {"cpu": 1000, "memory": 1}
"""What a kubelet counts in: thousandths of a processor, and bytes."""


def requests(containers: Iterable[Object]) -> Counter[str]:
    """What they ask for together."""
    found: Counter[str] = Counter()
    for container in containers:
        for name, amount in ((container.get("resources") or {}).get("requests") or {}).items():
            if name in UNITS:
                found[name] += int(quantity(amount) * UNITS[name])
    return found


@dataclass(frozen=True)
class Room:
    """For one pod; a resource without `capacity` has no bounds."""

    used: Mapping[str, int] = field(default_factory=dict)
    """By all others."""
    allocatable: Mapping[str, str] = field(default_factory=dict)

    def lacks(self, asked: Mapping[str, int]) -> str:
        """In the kubelet's words; empty when there is enough."""
        for name, unit in UNITS.items():
            used, capacity = self.used.get(name, 0), quantity(self.allocatable.get(name, "Infinity")) * unit
            if Decimal(asked.get(name, 0)) + used > capacity:
                amounts = f"requested: {asked[name]}, used: {used}, capacity: {int(capacity)}"
                return f"Node didn't have enough resource: {name}, {amounts}"
        return ""
