"""The readiness gate KruisePodReady: who keeps it closed, as the message of its condition lists them."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api.gates import (
    PodCondition,
    ReadinessGate,
    ReadinessGateView,
    gates_of,
    marked,
    message_of,
    unmarked,
    writers,
)

STAMP = "2026-11-22T10:00:00Z"
EARLIER = "2026-11-22T09:00:00Z"
OURS = '[{"userAgent":"Lifecycle","key":"preDeleteHook"}]'
THEIRS = '[{"userAgent":"ContainerRecreateRequest","key":"default/crr"}]'
BOTH = (
    '[{"userAgent":"ContainerRecreateRequest","key":"default/crr"},{"userAgent":"Lifecycle","key":"preDeleteHook"}]'
)
PATH = "/status/conditions"


def condition(status: str, message: str = "", type_: str = "KruisePodReady") -> PodCondition:
    return PodCondition(type=type_, status=status, message=message, last_transition_time=EARLIER)


def gate(*conditions: PodCondition) -> ReadinessGate:
    return gates_of([ReadinessGateView(condition_type="KruisePodReady")], conditions)[0]


def of(status: str, message: str = "", since: str = STAMP) -> dict[str, Any]:
    found = {"type": "KruisePodReady", "status": status, "lastTransitionTime": since}
    return {**found, "message": message} if message else found


def test_the_message_is_that_of_openkruise() -> None:
    assert message_of((), ours=True) == OURS
    assert message_of(writers(THEIRS) or (), ours=True) == BOTH
    assert message_of(writers(BOTH) or (), ours=True) == BOTH
    assert message_of(writers(BOTH) or (), ours=False) == THEIRS
    assert message_of(writers(OURS) or (), ours=False) == ""


@pytest.mark.parametrize("message", ["not a list", "{}", '["a"]', '[{"key":1}]', "[" * 5000])
def test_a_message_that_is_no_such_list_belongs_to_somebody_else(message: str) -> None:
    assert writers(message) is None
    assert not gate(condition("False", message)).due


@pytest.mark.parametrize(
    ("status", "message", "due", "ours", "others"),
    [
        ("False", OURS, False, True, False),
        ("False", THEIRS, False, False, True),
        ("False", BOTH, False, True, True),
        ("False", "[]", True, False, False),
        ("", "", True, False, False),
        ("", OURS, False, True, False),
        ("True", BOTH, False, False, False),
    ],
)
def test_a_gate_is_due_to_be_opened_where_nobody_is_left(
    status: str, message: str, due: bool, ours: bool, others: bool
) -> None:
    found = gate(condition(status, message))
    assert (found.due, found.marked, found.kept) == (due, ours, others)


def test_only_kruise_pod_ready_has_such_a_list() -> None:
    closed = PodCondition(type="InPlaceUpdateReady", status="False", message="words")
    (found,) = gates_of([ReadinessGateView(condition_type="InPlaceUpdateReady")], [closed])
    assert found.due


def test_a_gate_that_nobody_has_set_is_due() -> None:
    assert gate(condition("True", type_="Ready")).due


@pytest.mark.parametrize(
    ("before", "wanted"),
    [
        ((), [{"op": "add", "path": PATH, "value": [of("False", OURS)]}]),
        ((condition("False", type_="Ready"),), [{"op": "add", "path": f"{PATH}/-", "value": of("False", OURS)}]),
        ((condition("True", THEIRS),), [{"op": "replace", "path": f"{PATH}/0", "value": of("False", OURS)}]),
        (
            (condition("False", THEIRS),),
            [{"op": "replace", "path": f"{PATH}/0", "value": of("False", BOTH, EARLIER)}],
        ),
        ((condition("", ""),), [{"op": "replace", "path": f"{PATH}/0", "value": of("False", OURS)}]),
        ((condition("False", BOTH),), []),
    ],
    ids=["no conditions", "missing", "open", "closed by somebody else", "without a status", "closed by us"],
)
def test_our_entry_is_written_beside_those_of_others(
    before: tuple[PodCondition, ...], wanted: list[dict[str, Any]]
) -> None:
    assert list(marked(before, STAMP)) == wanted


def test_with_it_the_pod_is_not_ready_at_once() -> None:
    """Also where an earlier attempt has come half of the way."""
    ready = condition("True", type_="Ready")
    for before in ((condition("True"), ready), (condition("False", OURS), ready)):
        written = {one["path"]: one["value"] for one in marked(before, STAMP)}
        assert written[f"{PATH}/1/status"] == "False"
        assert written[f"{PATH}/1/reason"] == "ReadinessGatesNotReady"
    assert marked((condition("False", OURS), condition("False", type_="Ready")), STAMP) == ()


@pytest.mark.parametrize(
    ("before", "wanted"),
    [
        ((condition("False", OURS),), [{"op": "replace", "path": f"{PATH}/0", "value": of("True")}]),
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
    assert list(unmarked(before, STAMP)) == wanted
