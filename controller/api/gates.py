"""Readiness gates: conditions of a pod without which the kubelet does not call it ready, and which we set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controller.api import patch
from controller.api.base import JSONObject, Value, View
from controller.api.meta import epoch
from controller.api.wellknown import IN_PLACE_UPDATE_READY, KRUISE_POD_READY, START_IN_PLACE_UPDATE

OURS = (IN_PLACE_UPDATE_READY, KRUISE_POD_READY)


class ReadinessGateView(View):
    condition_type: str = ""


class PodCondition(View):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class Gate(Value):
    """One of `OURS` that a pod has, and how its condition stands."""

    type: str
    open: bool
    """Whether the condition is True."""
    present: bool
    """Whether the condition is there at all."""
    index: int
    """Its place among `status.conditions`, or their number where it is missing."""
    since: float | None = None
    """Seconds since 1970: when the condition last changed."""
    draining: bool = False
    """Whether it was closed for an in-place update."""


def gates_of(gates: Iterable[ReadinessGateView], conditions: Sequence[PodCondition]) -> tuple[Gate, ...]:
    wanted = dict.fromkeys(gate.condition_type for gate in gates if gate.condition_type in OURS)
    return tuple(_gate(type_, conditions) for type_ in wanted)


def _gate(type_: str, conditions: Sequence[PodCondition]) -> Gate:
    for index, one in enumerate(conditions):
        if one.type == type_:
            open_ = one.status == "True"
            return Gate(
                type=type_,
                open=open_,
                present=True,
                index=index,
                since=epoch(one.last_transition_time),
                draining=not open_ and one.reason == START_IN_PLACE_UPDATE,
            )
    return Gate(type=type_, open=False, present=False, index=len(conditions))


def opened(gates: Iterable[Gate], stamp: str) -> tuple[JSONObject, ...]:
    """The operations on a pod's status that set all of them True; `stamp` is the time as RFC 3339."""
    found = [(gate, _condition(gate.type, stamp)) for gate in gates]
    replaced = [_replaced(gate.index, condition) for gate, condition in found if gate.present]
    missing = [(gate.index, condition) for gate, condition in found if not gate.present]
    if missing and not missing[0][0]:
        return (*replaced, patch.add([condition for _, condition in missing], "status", "conditions"))
    return (*replaced, *(patch.add(condition, "status", "conditions", "-") for _, condition in missing))


def closed(conditions: Sequence[PodCondition], type_: str, reason: str, stamp: str) -> tuple[JSONObject, ...]:
    """The operations that set one False, and with it the pod's Ready, as the kubelet will: nobody has to wait for
    that. None where both are so already for this reason."""
    places = {condition.type: index for index, condition in enumerate(conditions)}
    operations: list[JSONObject] = []
    own = conditions[places[type_]] if type_ in places else None
    condition = _condition(type_, stamp, reason)
    if own is None:
        end = patch.add(condition, "status", "conditions", "-")
        operations.append(end if conditions else patch.add([condition], "status", "conditions"))
    elif (own.status, own.reason) != ("False", reason):
        operations.append(_replaced(places[type_], condition))
    ready = places.get("Ready")
    if ready is not None and conditions[ready].status == "True":
        fields = {
            "status": "False",
            "reason": "ReadinessGatesNotReady",
            "message": f'the status of pod readiness gate "{type_}" is not "True", but False',
            "lastTransitionTime": stamp,
        }
        operations += [patch.add(text, "status", "conditions", str(ready), name) for name, text in fields.items()]
    return tuple(operations)


def _condition(type_: str, stamp: str, reason: str = "") -> JSONObject:
    found: JSONObject = {"type": type_, "status": "False" if reason else "True", "lastTransitionTime": stamp}
    return {**found, "reason": reason} if reason else found


def _replaced(index: int, condition: JSONObject) -> JSONObject:
    return {"op": "replace", "path": patch.pointer("status", "conditions", str(index)), "value": condition}
