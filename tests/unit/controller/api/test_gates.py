"""Readiness gates: how they stand, and the writes that open and close them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controller.api.objects import rfc3339
from controller.api.readiness_gates import (
    PodCondition,
    ReadinessGate,
    ReadinessGateView,
    closed,
    gates_of,
    message_of,
    opened,
    with_our_entry,
    without_our_entry,
    writers,
)
from tests.beds.simulator.patching import json_patch
from tests.beds.worlds import NOW

OURS, OTHER = "InPlaceUpdateReady", "KruisePodReady"
STAMP = rfc3339(NOW)
START = "StartInPlaceUpdate"
READY = {"type": "Ready", "status": "True", "lastTransitionTime": rfc3339(NOW - 60)}
MESSAGE = 'the status of pod readiness gate "InPlaceUpdateReady" is not "True", but False'

OPEN = {"type": OURS, "status": "True", "lastTransitionTime": rfc3339(NOW - 60)}
CLOSED = {"type": OURS, "status": "False", "reason": START, "lastTransitionTime": STAMP}
UNREADY = {"type": "Ready", "status": "False"}
TOLD = {"reason": "ReadinessGatesNotReady", "message": MESSAGE, "lastTransitionTime": STAMP}
BOUND = {"type": "PodScheduled", "status": "True"}
IS_OPEN = ReadinessGate(type=OURS, open=True, present=True, index=1)
IS_CLOSED = ReadinessGate(type=OURS, open=False, present=True, index=1)

Json = dict[str, Any]


def views(*conditions: Json) -> tuple[PodCondition, ...]:
    return msgspec.convert(conditions, tuple[PodCondition, ...])


def gates(*types: str) -> tuple[ReadinessGateView, ...]:
    return tuple(ReadinessGateView(condition_type=one) for one in types)


def after(conditions: tuple[Json, ...], operations: tuple[Json, ...]) -> list[Json]:
    """Of a pod that has them in its status, or no list at all."""
    status: Json = {"conditions": list(conditions)} if conditions else {}
    found: list[Json] = json_patch({"status": status}, list(operations))["status"].get("conditions", [])
    return found


@pytest.mark.parametrize(
    ("types", "condition", "gate"),
    [
        ((OURS,), None, ReadinessGate(type=OURS, open=False, present=False, index=1)),
        ((OURS,), {"status": "True"}, IS_OPEN),
        ((OURS, OURS), {"status": "True"}, IS_OPEN),
        ((OURS,), {"status": "True", "reason": START}, IS_OPEN),
        ((OURS,), {"status": "False"}, IS_CLOSED),
        ((OURS,), {"status": "Unknown"}, IS_CLOSED),
        ((OURS,), CLOSED, replace(IS_CLOSED, since=NOW, draining=True)),
        (("example.com/mine",), {"status": "True"}, None),
        ((), {"status": "True"}, None),
    ],
)
def test_how_a_gate_stands(types: tuple[str, ...], condition: Json | None, gate: ReadinessGate | None) -> None:
    conditions = [READY] if condition is None else [READY, {"type": OURS, **condition}]
    assert gates_of(gates(*types), views(*conditions)) == (() if gate is None else (gate,))


@pytest.mark.parametrize(
    "conditions",
    [
        (),
        (READY,),
        ({"type": OURS, "status": "False", "reason": START}, READY),
        (READY, {"type": OTHER, "status": "False"}),
        ({"type": OTHER, "status": "False"}, {"type": OURS, "status": "Unknown"}),
    ],
)
def test_opened_all_are_true_without_a_reason_and_the_rest_stays(conditions: tuple[Json, ...]) -> None:
    found = after(conditions, opened(gates_of(gates(OURS, OTHER), views(*conditions)), STAMP))
    by_type = {one["type"]: one for one in found}
    assert len(found) == len(by_type)
    for type_ in (OURS, OTHER):
        assert by_type.pop(type_) == {"type": type_, "status": "True", "lastTransitionTime": STAMP}
    assert [*by_type.values()] == [one for one in conditions if one is READY]


@pytest.mark.parametrize(
    ("before", "wanted"),
    [
        ((OPEN, READY), [CLOSED, UNREADY | TOLD]),
        ((), [CLOSED]),
        ((BOUND,), [BOUND, CLOSED]),
        ((OPEN | {"status": "False"},), [CLOSED]),
        ((CLOSED,), None),
        ((CLOSED, UNREADY), None),
    ],
    ids=["open and ready", "no conditions", "none of its own", "for another reason", "closed", "and not ready"],
)
def test_closed_ready_goes_with_it_as_the_kubelet_would_do_it(
    before: tuple[Json, ...], wanted: list[Json] | None
) -> None:
    operations = closed(views(*before), OURS, START, STAMP)
    assert (operations == ()) is (wanted is None)
    assert after(before, operations) == ([*before] if wanted is None else wanted)


# the list of KruisePodReady


EARLIER = rfc3339(NOW - 60)
LIFECYCLE = '[{"userAgent":"Lifecycle","key":"preDeleteHook"}]'
THEIRS = '[{"userAgent":"ContainerRecreateRequest","key":"default/crr"}]'
BOTH = (
    '[{"userAgent":"ContainerRecreateRequest","key":"default/crr"},{"userAgent":"Lifecycle","key":"preDeleteHook"}]'
)
PATH = "/status/conditions"


def condition(status: str, message: str = "", type_: str = OTHER) -> PodCondition:
    return PodCondition(type=type_, status=status, message=message, last_transition_time=EARLIER)


def gate(*conditions: PodCondition) -> ReadinessGate:
    return gates_of(gates(OTHER), conditions)[0]


def of(status: str, message: str = "", since: str = STAMP) -> dict[str, Any]:
    found = {"type": OTHER, "status": status, "lastTransitionTime": since}
    return {**found, "message": message} if message else found


def test_the_message_is_that_of_openkruise() -> None:
    assert message_of((), ours=True) == LIFECYCLE
    assert message_of(writers(THEIRS) or (), ours=True) == BOTH
    assert message_of(writers(BOTH) or (), ours=True) == BOTH
    assert message_of(writers(BOTH) or (), ours=False) == THEIRS
    assert message_of(writers(LIFECYCLE) or (), ours=False) == ""


@pytest.mark.parametrize("message", ["not a list", "{}", '["a"]', '[{"key":1}]', "[" * 5000])
def test_a_message_that_is_no_such_list_belongs_to_another_writer(message: str) -> None:
    assert writers(message) is None
    assert not gate(condition("False", message)).to_open


@pytest.mark.parametrize(
    ("status", "message", "due", "ours", "others"),
    [
        ("False", LIFECYCLE, False, True, False),
        ("False", THEIRS, False, False, True),
        ("False", BOTH, False, True, True),
        ("False", "[]", True, False, False),
        ("", "", True, False, False),
        ("", LIFECYCLE, False, True, False),
        ("True", BOTH, False, False, False),
    ],
)
def test_a_gate_is_due_to_be_opened_where_no_holder_is_left(
    status: str, message: str, due: bool, ours: bool, others: bool
) -> None:
    found = gate(condition(status, message))
    assert (found.to_open, found.marked_not_ready, found.held_by_others) == (due, ours, others)


def test_only_kruise_pod_ready_has_such_a_list() -> None:
    (found,) = gates_of(gates(OURS), [condition("False", "words", OURS)])
    assert found.to_open


@pytest.mark.parametrize(
    ("before", "wanted"),
    [
        ((), [{"op": "add", "path": PATH, "value": [of("False", LIFECYCLE)]}]),
        ((condition("False", type_="Ready"),), [{"op": "add", "path": f"{PATH}/-", "value": of("False", LIFECYCLE)}]),
        ((condition("True", THEIRS),), [{"op": "replace", "path": f"{PATH}/0", "value": of("False", LIFECYCLE)}]),
        (
            (condition("False", THEIRS),),
            [{"op": "replace", "path": f"{PATH}/0", "value": of("False", BOTH, EARLIER)}],
        ),
        ((condition("", ""),), [{"op": "replace", "path": f"{PATH}/0", "value": of("False", LIFECYCLE)}]),
        ((condition("False", BOTH),), []),
    ],
    ids=["no conditions", "missing", "open", "closed by somebody else", "without a status", "closed by us"],
)
def test_our_entry_is_written_beside_those_of_others(
    before: tuple[PodCondition, ...], wanted: list[dict[str, Any]]
) -> None:
    assert list(with_our_entry(before, STAMP)) == wanted


def test_with_it_the_pod_is_not_ready_at_once() -> None:
    """Also where an earlier attempt has come half of the way."""
    ready = condition("True", type_="Ready")
    for before in ((condition("True"), ready), (condition("False", LIFECYCLE), ready)):
        written = {one["path"]: one["value"] for one in with_our_entry(before, STAMP)}
        assert written[f"{PATH}/1/status"] == "False"
        assert written[f"{PATH}/1/reason"] == "ReadinessGatesNotReady"
    assert with_our_entry((condition("False", LIFECYCLE), condition("False", type_="Ready")), STAMP) == ()


@pytest.mark.parametrize(
    ("before", "wanted"),
    [
        ((condition("False", LIFECYCLE),), [{"op": "replace", "path": f"{PATH}/0", "value": of("True")}]),
        (
            (condition("False", BOTH),),
            [{"op": "replace", "path": f"{PATH}/0", "value": of("False", THEIRS, EARLIER)}],
        ),
        ((condition("False", THEIRS),), []),
        ((condition("False", "words"),), []),
        ((condition("True"),), []),
        ((), []),
    ],
    ids=["ours alone", "another one's too", "another one's", "words", "open", "missing"],
)
def test_only_our_entry_is_taken_away_and_it_is_true_when_none_is_left(
    before: tuple[PodCondition, ...], wanted: list[dict[str, Any]]
) -> None:
    assert list(without_our_entry(before, STAMP)) == wanted
