"""Our readiness gates, and the JSON Patch operations that change their conditions. As in OpenKruise, the message of
KruisePodReady lists the entries of all writers that keep it False; it is True only when that list is empty."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from controller.api import patch
from controller.api.names import IN_PLACE_UPDATE_READY, KRUISE_POD_READY, START_IN_PLACE_UPDATE
from controller.api.objects import JSONObject, Value, View, as_bytes, epoch

OUR_GATES = (IN_PLACE_UPDATE_READY, KRUISE_POD_READY)
PRE_DELETE: Final[JSONObject] = {"userAgent": "Lifecycle", "key": "preDeleteHook"}
"""Our KruisePodReady entry for a pod held for deletion. OpenKruise writes the same, so that either can remove it."""


class ReadinessGateView(View):
    condition_type: str = ""


class PodCondition(View):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class ReadinessGate(Value):
    type: str
    open: bool
    present: bool
    index: int
    """Index in `status.conditions`; their number if it is missing."""
    since: float | None = None
    """The lastTransitionTime in seconds since 1970; None if not known."""
    draining: bool = False
    marked_not_ready: bool = False
    """Has our entry, as the pod is to be deleted."""
    held_by_others: bool = False
    unlisted: bool = False
    """The message is another writer's and not a list, so that our entry cannot be added."""

    @property
    def to_open(self) -> bool:
        return not (self.open or self.marked_not_ready or self.held_by_others)


def gates_of(gates: Iterable[ReadinessGateView], conditions: Sequence[PodCondition]) -> tuple[ReadinessGate, ...]:
    wanted = dict.fromkeys(gate.condition_type for gate in gates if gate.condition_type in OUR_GATES)
    return tuple(_gate(type_, conditions) for type_ in wanted)


def _gate(type_: str, conditions: Sequence[PodCondition]) -> ReadinessGate:
    index = _index(conditions, type_)
    if index is None:
        return ReadinessGate(type=type_, open=False, present=False, index=len(conditions))
    condition = conditions[index]
    is_open = condition.status == "True"
    entries = writers(condition.message) if type_ == KRUISE_POD_READY and not is_open else ()
    return ReadinessGate(
        type=type_,
        open=is_open,
        present=True,
        index=index,
        since=epoch(condition.last_transition_time),
        draining=not is_open and condition.reason == START_IN_PLACE_UPDATE,
        marked_not_ready=any(map(is_ours, entries or ())),
        held_by_others=entries is None or not all(map(is_ours, entries)),
        unlisted=entries is None,
    )


def opened(gates: Sequence[ReadinessGate], stamp: str) -> tuple[JSONObject, ...]:
    """Operations that set these conditions True. `stamp` is RFC 3339."""
    wanted = [(gate.index if gate.present else None, _condition(gate.type, "True", stamp)) for gate in gates]
    return _written(wanted, max((gate.index for gate in gates), default=0))


def closed(conditions: Sequence[PodCondition], type_: str, reason: str, stamp: str) -> tuple[JSONObject, ...]:
    """Operations that set this condition and Ready to False; the kubelet would set Ready only a moment later."""
    index = _index(conditions, type_)
    done = index is not None and (conditions[index].status, conditions[index].reason) == ("False", reason)
    wanted = [] if done else [(index, _condition(type_, "False", stamp, reason=reason))]
    return (*_written(wanted, len(conditions)), *_unready(conditions, type_, stamp))


def with_our_entry(conditions: Sequence[PodCondition], stamp: str) -> tuple[JSONObject, ...]:
    """Operations that add our entry and set KruisePodReady and Ready to False. Any message but a list is kept."""
    index, entries = _entries(conditions)
    done = index is not None and conditions[index].status == "False"
    done = done and (entries is None or any(map(is_ours, entries)))
    wanted = () if done else _listing(conditions, index, message_of(entries or (), ours=True), stamp)
    return (*wanted, *_unready(conditions, KRUISE_POD_READY, stamp))


def without_our_entry(conditions: Sequence[PodCondition], stamp: str) -> tuple[JSONObject, ...]:
    """Operations that remove our entry, and set KruisePodReady True if it was the last."""
    index, entries = _entries(conditions)
    if not any(map(is_ours, entries or ())):
        return ()
    return _listing(conditions, index, message_of(entries or (), ours=False), stamp)


def writers(message: str) -> tuple[JSONObject, ...] | None:
    """The entries in the message of a condition that is not True; None if it is not a list of entries."""
    if not message:
        return ()
    try:
        return tuple(msgspec.json.decode(message, type=tuple[dict[str, str], ...]))
    except (msgspec.DecodeError, RecursionError):
        return None


def is_ours(entry: JSONObject) -> bool:
    return (entry.get("userAgent"), entry.get("key")) == (PRE_DELETE["userAgent"], PRE_DELETE["key"])


def message_of(entries: Iterable[JSONObject], *, ours: bool) -> str:
    """The message with these entries, with or without ours, sorted as by all writers; "" if there are none."""
    found = [*(entry for entry in entries if not is_ours(entry)), *([PRE_DELETE] if ours else [])]
    found.sort(key=lambda entry: (str(entry.get("userAgent", "")), str(entry.get("key", ""))))
    return as_bytes(found).decode() if found else ""


def _index(conditions: Sequence[PodCondition], type_: str) -> int | None:
    return next((index for index, condition in enumerate(conditions) if condition.type == type_), None)


def _entries(conditions: Sequence[PodCondition]) -> tuple[int | None, tuple[JSONObject, ...] | None]:
    index = _index(conditions, KRUISE_POD_READY)
    is_closed = index is not None and conditions[index].status != "True"
    return index, writers(conditions[index].message) if index is not None and is_closed else ()


def _listing(
    conditions: Sequence[PodCondition], index: int | None, message: str, stamp: str
) -> tuple[JSONObject, ...]:
    """Operations that write this list of entries. lastTransitionTime changes only with the status."""
    status = "False" if message else "True"
    same = index is not None and conditions[index].status == status
    since = conditions[index].last_transition_time if index is not None and same else None
    return _written([(index, _condition(KRUISE_POD_READY, status, since or stamp, message=message))], len(conditions))


def _condition(type_: str, status: str, stamp: str, *, reason: str = "", message: str = "") -> JSONObject:
    texts: JSONObject = {"reason": reason, "message": message}
    found: JSONObject = {"type": type_, "status": status, "lastTransitionTime": stamp}
    return found | {key: text for key, text in texts.items() if text}


def _written(conditions: Iterable[tuple[int | None, JSONObject]], total: int) -> tuple[JSONObject, ...]:
    wanted = list(conditions)
    missing: list[JSONObject] = [condition for index, condition in wanted if index is None]
    replaced = [
        patch.replace(condition, "status", "conditions", str(index))
        for index, condition in wanted
        if index is not None
    ]
    if missing and not total:
        return (patch.add(list(missing), "status", "conditions"),)
    return (*replaced, *(patch.add(condition, "status", "conditions", "-") for condition in missing))


def _unready(conditions: Sequence[PodCondition], type_: str, stamp: str) -> tuple[JSONObject, ...]:
    index = _index(conditions, "Ready")
    if index is None or conditions[index].status != "True":
        return ()
    fields = {
        "status": "False",
        "reason": "ReadinessGatesNotReady",
        "message": f'the status of pod readiness gate "{type_}" is not "True", but False',
        "lastTransitionTime": stamp,
    }
    return tuple(patch.add(text, "status", "conditions", str(index), name) for name, text in fields.items())
