"""The readiness gates that we set: conditions without which the kubelet does not call a pod ready.

Several writers share KruisePodReady. As in OpenKruise, the message of the condition lists those that keep it False,
and it is True only when the list is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from controller.api import patch
from controller.api.names import IN_PLACE_UPDATE_READY, KRUISE_POD_READY, START_IN_PLACE_UPDATE
from controller.api.objects import JSONObject, Value, View, as_bytes, epoch

OURS = (IN_PLACE_UPDATE_READY, KRUISE_POD_READY)
PRE_DELETE: Final[JSONObject] = {"userAgent": "Lifecycle", "key": "preDeleteHook"}
"""Our entry while a pod is prepared for its deletion. OpenKruise has the same one, so that each controller can take
back what the other has written."""


class ReadinessGateView(View):
    condition_type: str = ""


class PodCondition(View):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class ReadinessGate(Value):
    """One readiness gate of `OURS` that a pod has, with the state of its condition."""

    type: str
    open: bool
    """Whether the condition is True."""
    present: bool
    """Whether the condition exists."""
    index: int
    """Its index in `status.conditions`; their number if it is missing."""
    since: float | None = None
    """When the condition last changed (seconds since 1970); None: not known."""
    draining: bool = False
    """Whether it was closed for an in-place update."""
    marked_not_ready: bool = False
    """Whether it is closed because the pod is prepared for its deletion."""
    held_by_others: bool = False
    """Whether somebody else keeps it closed."""
    unlisted: bool = False
    """Whether another writer keeps it closed with a message that is no list, so that our entry cannot be added."""

    @property
    def to_open(self) -> bool:
        """Whether it is closed although nobody wants it closed."""
        return not (self.open or self.marked_not_ready or self.held_by_others)


def gates_of(gates: Iterable[ReadinessGateView], conditions: Sequence[PodCondition]) -> tuple[ReadinessGate, ...]:
    wanted = dict.fromkeys(gate.condition_type for gate in gates if gate.condition_type in OURS)
    return tuple(_gate(type_, conditions) for type_ in wanted)


def _gate(type_: str, conditions: Sequence[PodCondition]) -> ReadinessGate:
    for index, one in enumerate(conditions):
        if one.type == type_:
            open_ = one.status == "True"
            entries = writers(one.message) if type_ == KRUISE_POD_READY and not open_ else ()
            return ReadinessGate(
                type=type_,
                open=open_,
                present=True,
                index=index,
                since=epoch(one.last_transition_time),
                draining=not open_ and one.reason == START_IN_PLACE_UPDATE,
                marked_not_ready=any(map(is_ours, entries or ())),
                held_by_others=entries is None or not all(map(is_ours, entries)),
                unlisted=entries is None,
            )
    return ReadinessGate(type=type_, open=False, present=False, index=len(conditions))


def opened(gates: Iterable[ReadinessGate], stamp: str) -> tuple[JSONObject, ...]:
    """Operations on the status of a pod that set all these conditions True; `stamp` is the time as RFC 3339."""
    found = [(gate, _condition(gate.type, stamp)) for gate in gates]
    replaced = [_replaced(gate.index, condition) for gate, condition in found if gate.present]
    missing = [(gate.index, condition) for gate, condition in found if not gate.present]
    if missing and not missing[0][0]:
        return (*replaced, patch.add([condition for _, condition in missing], "status", "conditions"))
    return (*replaced, *(patch.add(condition, "status", "conditions", "-") for _, condition in missing))


def closed(conditions: Sequence[PodCondition], type_: str, reason: str, stamp: str) -> tuple[JSONObject, ...]:
    """Operations that set this condition False, and also the Ready condition, as the kubelet would do a moment later.
    No operations if both are False for this reason already."""
    own = _found(conditions, type_)
    done = own is not None and (own.status, own.reason) == ("False", reason)
    return (
        *(() if done else _set(conditions, _condition(type_, stamp, reason))),
        *_unready(conditions, type_, stamp),
    )


def marked(conditions: Sequence[PodCondition], stamp: str) -> tuple[JSONObject, ...]:
    """Operations that set KruisePodReady False with our entry beside those of others, and also the Ready condition.
    If another writer keeps it False with a message that is no list, that message stays."""
    own = _found(conditions, KRUISE_POD_READY)
    entries = _entries(own)
    done = own is not None and own.status == "False" and (any(map(is_ours, entries)) or writers(own.message) is None)
    condition = _listing(own, message_of(entries, ours=True), stamp)
    return (*(() if done else _set(conditions, condition)), *_unready(conditions, KRUISE_POD_READY, stamp))


def unmarked(conditions: Sequence[PodCondition], stamp: str) -> tuple[JSONObject, ...]:
    """Operations that remove our entry, and set the condition True if no other is left; none without our entry."""
    own = _found(conditions, KRUISE_POD_READY)
    entries = _entries(own)
    if own is None or not any(map(is_ours, entries)):
        return ()
    return _set(conditions, _listing(own, message_of(entries, ours=False), stamp))


def writers(message: str) -> tuple[JSONObject, ...] | None:
    """The entries in the message of a condition that is not True. None: the message is no such list."""
    if not message:
        return ()
    try:
        return tuple(msgspec.json.decode(message, type=tuple[dict[str, str], ...]))
    except (msgspec.DecodeError, RecursionError):
        return None


def is_ours(entry: JSONObject) -> bool:
    return (entry.get("userAgent"), entry.get("key")) == (PRE_DELETE["userAgent"], PRE_DELETE["key"])


def message_of(entries: Iterable[JSONObject], *, ours: bool) -> str:
    """The message with these entries, with or without ours, in the order of all writers; empty for none."""
    found = [one for one in entries if not is_ours(one)]
    if ours:
        found.append(PRE_DELETE)
    found.sort(key=lambda one: (str(one.get("userAgent", "")), str(one.get("key", ""))))
    return as_bytes(found).decode() if found else ""


def _entries(own: PodCondition | None) -> Sequence[JSONObject]:
    """The entries that keep KruisePodReady False; empty if they cannot be read."""
    return (writers(own.message) if own is not None and own.status != "True" else ()) or ()


def _found(conditions: Sequence[PodCondition], type_: str) -> PodCondition | None:
    return next((one for one in conditions if one.type == type_), None)


def _set(conditions: Sequence[PodCondition], condition: JSONObject) -> tuple[JSONObject, ...]:
    for index, one in enumerate(conditions):
        if one.type == condition["type"]:
            return (_replaced(index, condition),)
    end = patch.add(condition, "status", "conditions", "-")
    return (end if conditions else patch.add([condition], "status", "conditions"),)


def _unready(conditions: Sequence[PodCondition], type_: str, stamp: str) -> tuple[JSONObject, ...]:
    """Operations that set the Ready condition of the pod False because of this gate; none if it is not True."""
    for index, one in enumerate(conditions):
        if one.type == "Ready" and one.status == "True":
            fields = {
                "status": "False",
                "reason": "ReadinessGatesNotReady",
                "message": f'the status of pod readiness gate "{type_}" is not "True", but False',
                "lastTransitionTime": stamp,
            }
            return tuple(patch.add(text, "status", "conditions", str(index), name) for name, text in fields.items())
    return ()


def _listing(own: PodCondition | None, message: str, stamp: str) -> JSONObject:
    """The condition KruisePodReady with this list in its message. Its time changes only with its status."""
    status = "False" if message else "True"
    since = own.last_transition_time if own is not None and own.status == status else None
    condition: JSONObject = {"type": KRUISE_POD_READY, "status": status, "lastTransitionTime": since or stamp}
    return {**condition, "message": message} if message else condition


def _condition(type_: str, stamp: str, reason: str = "") -> JSONObject:
    found: JSONObject = {"type": type_, "status": "False" if reason else "True", "lastTransitionTime": stamp}
    return {**found, "reason": reason} if reason else found


def _replaced(index: int, condition: JSONObject) -> JSONObject:
    return {"op": "replace", "path": patch.pointer("status", "conditions", str(index)), "value": condition}
