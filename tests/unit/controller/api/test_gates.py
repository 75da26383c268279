"""Readiness gates: how they stand, and the writes that open and close them."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api.objects import rfc3339
from controller.api.readiness_gates import PodCondition, ReadinessGate, ReadinessGateView, closed, gates_of, opened
from tests.beds.simulator.patching import json_patch
from tests.beds.worlds import NOW

OURS, OTHER = "InPlaceUpdateReady", "KruisePodReady"
STAMP = rfc3339(NOW)
START = "StartInPlaceUpdate"
READY = {"type": "Ready", "status": "True", "lastTransitionTime": rfc3339(NOW - 60)}
MESSAGE = 'the status of pod readiness gate "InPlaceUpdateReady" is not "True", but False'

Json = dict[str, Any]


def views(*conditions: Json) -> tuple[PodCondition, ...]:
    return tuple(
        PodCondition(
            type=one["type"],
            status=one["status"],
            reason=one.get("reason", ""),
            last_transition_time=one.get("lastTransitionTime"),
        )
        for one in conditions
    )


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
        ((OURS,), {"status": "True"}, ReadinessGate(type=OURS, open=True, present=True, index=1)),
        ((OURS, OURS), {"status": "True"}, ReadinessGate(type=OURS, open=True, present=True, index=1)),
        ((OURS,), {"status": "False"}, ReadinessGate(type=OURS, open=False, present=True, index=1)),
        ((OURS,), {"status": "Unknown"}, ReadinessGate(type=OURS, open=False, present=True, index=1)),
        (
            (OURS,),
            {"status": "False", "reason": START, "lastTransitionTime": STAMP},
            ReadinessGate(type=OURS, open=False, present=True, index=1, since=NOW, draining=True),
        ),
        (
            (OURS,),
            {"status": "True", "reason": START},
            ReadinessGate(type=OURS, open=True, present=True, index=1),
        ),
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


def test_closed_ready_goes_with_it_as_the_kubelet_would_do_it() -> None:
    conditions = ({"type": OURS, "status": "True", "lastTransitionTime": rfc3339(NOW - 60)}, READY)
    gate, ready = after(conditions, closed(views(*conditions), OURS, START, STAMP))
    assert gate == {"type": OURS, "status": "False", "reason": START, "lastTransitionTime": STAMP}
    reason = "ReadinessGatesNotReady"
    told = {"status": "False", "reason": reason, "message": MESSAGE, "lastTransitionTime": STAMP}
    assert ready == {"type": "Ready", **told}


@pytest.mark.parametrize("conditions", [(), ({"type": "PodScheduled", "status": "True"},)])
def test_closed_it_is_there_also_where_nobody_had_set_it(conditions: tuple[Json, ...]) -> None:
    found = after(conditions, closed(views(*conditions), OURS, START, STAMP))
    assert found[-1] == {"type": OURS, "status": "False", "reason": START, "lastTransitionTime": STAMP}
    assert found[:-1] == list(conditions)


@pytest.mark.parametrize("ready", ["False", None])
def test_closed_for_the_same_reason_already_nothing_is_written(ready: str | None) -> None:
    own = {"type": OURS, "status": "False", "reason": START, "lastTransitionTime": STAMP}
    others = [] if ready is None else [{"type": "Ready", "status": ready}]
    assert closed(views(own, *others), OURS, START, STAMP) == ()


def test_closed_for_another_reason_it_is_closed_anew() -> None:
    own = {"type": OURS, "status": "False", "lastTransitionTime": rfc3339(NOW - 60)}
    (found,) = after((own,), closed(views(own), OURS, START, STAMP))
    assert found == {"type": OURS, "status": "False", "reason": START, "lastTransitionTime": STAMP}
