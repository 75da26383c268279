"""What runs on a node of one pod, as its container runtime has it, and what a kubelet makes of changed resources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tests.beds.api import Object
from tests.beds.nodes.stages import Behaviour
from tests.beds.nodes.statuses import entries, is_running, lasting, terminated, told_resources
from tests.beds.objects import condition
from tests.beds.quantities import quantity


class Runtime:
    """Containers by name. Times are seconds of the loop, those in `told` RFC 3339."""

    def __init__(self) -> None:
        self.told: dict[str, Object] = {}
        """What the kubelet says of each, or is about to say."""
        self.ended: dict[str, float] = {}
        """When the last one that has ended did so."""
        self._dead: set[str] = set()
        self._known: set[str] = set()
        self._codes: dict[str, int] = {}

    def see(self, pod: Object, now: float) -> None:
        """Take over what others have done by way of the API: a test that moves a pod by hand, an earlier stand-in."""
        said = entries(pod)
        for name in (container["name"] for container in lasting(pod)):
            theirs, ours = said.get(name), self.told.get(name)
            if theirs is None:
                continue
            identity = theirs.get("containerID", "")
            if ours is None or (identity and identity not in self._known):
                self._adopt(name, theirs, now)
            elif identity == ours.get("containerID", "") and self.runs(name) and is_running(ours):
                if is_running(theirs):
                    self.told[name] = {**ours, "ready": theirs["ready"]}
                else:
                    self._adopt(name, theirs, now)

    def runs(self, name: str) -> bool:
        return name in self.told and name not in self._dead

    def end(self, name: str, code: int, now: float) -> None:
        """It has ended, which is not reported yet."""
        self._dead.add(name)
        self.ended[name], self._codes[name] = now, code

    def last(self, name: str, moment: str) -> Object:
        """What is to be reported of one that does not run."""
        told = self.told.get(name, {})
        return terminated(told, self._codes.get(name, 0), moment) if is_running(told) else told

    def start(self, name: str, told: Object) -> None:
        self._dead.discard(name)
        self._remember(name, told)

    def _adopt(self, name: str, told: Object, now: float) -> None:
        self._dead.discard(name)
        if not is_running(told):
            self._dead.add(name)
            if told.get("containerID"):
                self.ended[name] = now
        self._remember(name, told)

    def _remember(self, name: str, told: Object) -> None:
        self.told[name] = told
        if told.get("containerID"):
            self._known.add(told["containerID"])


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


PENDING, IN_PROGRESS = "PodResizePending", "PodResizeInProgress"
ERROR_SECONDS = 11.0
"""Until a resize that cannot be done is called an error."""

DEFERRED = "Node didn't have enough resource: cpu, requested: 1000, used: 1500, capacity: 2000"
TOO_LOW = "cannot decrease memory limits: attempting to set container memory limit below current usage"
INFEASIBLE = "In-place resize of containers in Guaranteed pods is not supported with a static CPU manager policy"


class Resizes:
    """Of one pod: what is reserved for its containers, which of them have it, and the two conditions."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._reserved: dict[str, Object] = {}
        self._conditions: dict[str, Object] = {}
        self._low_since: float | None = None

    @property
    def deferred(self) -> bool:
        return self._conditions.get(PENDING, {}).get("reason") == "Deferred"

    @property
    def in_progress(self) -> bool:
        return IN_PROGRESS in self._conditions

    def reserved(self, container: Object) -> Object:
        """What the node keeps for the container."""
        told = self._runtime.told.get(container["name"], {})
        found: Object = self._reserved.get(container["name"], told.get("resources") or {})
        return found

    def sized(self, container: Object) -> Object:
        """The container with that."""
        return {**container, "resources": self.reserved(container)}

    def requests(self, pod: Object) -> Counter[str]:
        """What is reserved for all of it."""
        return requests(map(self.sized, lasting(pod)))

    def waits(self, pod: Object, behaviour: Behaviour, room: Room) -> bool:
        """Whether a deferred one would be so again."""
        return bool(self._refusal(pod, behaviour, room)[0])

    def _refusal(self, pod: Object, behaviour: Behaviour, room: Room) -> tuple[str, str]:
        """Reason and message; empty when what the spec asks for can be reserved."""
        if behaviour.resizes:
            return behaviour.resizes, DEFERRED if behaviour.resizes == "Deferred" else INFEASIBLE
        words = room.lacks(requests(lasting(pod)))
        return ("Deferred", words) if words else ("", "")

    def ask(self, pod: Object, behaviour: Behaviour, room: Room) -> str:
        """Reserve what the spec asks for, or say why not. Returns the reason of an event, if there is one."""
        asked = {one["name"]: one.get("resources") or {} for one in lasting(pod)}
        if all(asked[one["name"]] == self.reserved(one) for one in lasting(pod)):
            self._conditions.pop(PENDING, None)
            return ""  # what was under way goes on
        reason, words = self._refusal(pod, behaviour, room)
        if reason:
            self._conditions[PENDING] = {"type": PENDING, "status": "True", "reason": reason, "message": words}
            return f"Resize{reason}"
        self._reserved, self._low_since = asked, None
        self._conditions = {IN_PROGRESS: {"type": IN_PROGRESS, "status": "True"}}
        return "ResizeStarted"

    def show_reserved(self, pod: Object) -> None:
        for sized in self.under_way(pod):
            told = told_resources(sized["resources"])
            self._tell(sized, {key: value for key, value in told.items() if key != "resources"})

    def under_way(self, pod: Object) -> list[Object]:
        """The containers that run with other resources than are reserved for them."""
        found = [self.sized(one) for one in lasting(pod) if self._runtime.runs(one["name"])]
        return [one for one in found if one["resources"] != self._has(one)]

    def fail_if_too_low(self, pod: Object, behaviour: Behaviour, now: float) -> float | None:
        """When a limit below what is in use is called an error; None where there is none."""
        if not any(
            _is_too_low(self._has(one), one["resources"], behaviour.memory_in_use) for one in self.under_way(pod)
        ):
            self._low_since = None
            return None
        self._low_since = now if self._low_since is None else self._low_since
        if now >= self._low_since + ERROR_SECONDS:
            self._conditions[IN_PROGRESS] |= {"reason": "Error", "message": TOO_LOW}
        return self._low_since + ERROR_SECONDS

    def finish(self, pod: Object) -> None:
        """They have what is reserved for them."""
        for sized in self.under_way(pod):
            self._tell(sized, told_resources(sized["resources"]))
        self._conditions.pop(IN_PROGRESS, None)

    def _has(self, container: Object) -> Object:
        return self._runtime.told[container["name"]].get("resources") or {}

    def _tell(self, container: Object, news: Object) -> None:
        self._runtime.told[container["name"]] = {**self._runtime.told[container["name"]], **news}

    def conditions(self, pod: Object, now: str) -> list[Object]:
        """As entries of a patch: what is over is taken away."""
        found: list[Object] = []
        for name in (PENDING, IN_PROGRESS):
            old, new = condition(pod, name), self._conditions.get(name)
            if new is not None:
                since = old.get("lastTransitionTime") or now
                generation = pod["metadata"].get("generation")
                found.append(
                    {**new, "lastProbeTime": None, "lastTransitionTime": since, "observedGeneration": generation}
                )
            elif old:
                found.append({"type": name, "$patch": "delete"})
        return found


def needs_restart(container: Object, old: Object, new: Object) -> bool:
    """Whether the container's resize policy wants a new container for this change."""
    policies = {one["resourceName"]: one["restartPolicy"] for one in container.get("resizePolicy") or []}
    return any(
        policies.get(name) == "RestartContainer" and _amounts(old, name) != _amounts(new, name)
        for name in ("cpu", "memory")
    )


def _is_too_low(old: Object, new: Object, in_use: str) -> bool:
    """Whether a memory limit would be below what the program uses."""
    limit = (new.get("limits") or {}).get("memory")
    return bool(in_use) and limit != (old.get("limits") or {}).get("memory") and _number(limit) < quantity(in_use)


def _amounts(resources: Object, name: str) -> list[Any]:
    return [(resources.get(field) or {}).get(name) for field in ("requests", "limits")]


def _number(amount: str | None) -> Decimal:
    return Decimal("Infinity") if amount is None else quantity(amount)
