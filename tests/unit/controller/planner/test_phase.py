"""The nine phases and the order in which they are tested."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.daemonset import Phase
from controller.planner.phase import Standing, phase_of

HEALTHY = Standing(desired=5, target=5, updated=5, done=5, available=5, completed=True)
HELD = replace(HEALTHY, target=2, updated=2, done=2, kept=3)
HALFWAY = replace(HEALTHY, updated=3, done=3, outdated=2, completed=False)


@pytest.mark.parametrize(
    ("base", "fields", "phase"),
    [
        (HEALTHY, {}, Phase.HEALTHY),
        (HELD, {}, Phase.HELD),
        (HALFWAY, {}, Phase.PROGRESSING),
        (HALFWAY, {"paused": True}, Phase.PAUSED),
        (HALFWAY, {"on_delete": True}, Phase.MANUAL),
        (HALFWAY, {"overdue": True}, Phase.STALLED),
        (HALFWAY, {"refused": "no such field"}, Phase.STALLED),
        (HEALTHY, {"done": 4, "available": 4}, Phase.DEGRADED),
        (HALFWAY, {"observed": False}, Phase.PENDING),
        (HALFWAY, {"dying": True}, Phase.TERMINATING),
        (Standing(completed=True), {}, Phase.HEALTHY),
        (Standing(refused="selector: empty"), {}, Phase.STALLED),
    ],
)
def test_each_phase(base: Standing, fields: dict[str, Any], phase: Phase) -> None:
    assert phase_of(replace(base, **fields)) is phase


@pytest.mark.parametrize(
    ("base", "fields", "phase"),
    [
        (HALFWAY, {"dying": True, "observed": False}, Phase.TERMINATING),
        (HALFWAY, {"observed": False, "on_delete": True}, Phase.PENDING),
        (HALFWAY, {"observed": False, "paused": True}, Phase.PENDING),
        (HEALTHY, {"observed": False}, Phase.PENDING),
        (HALFWAY, {"on_delete": True, "paused": True}, Phase.MANUAL),
        (HALFWAY, {"on_delete": True, "refused": "no"}, Phase.MANUAL),
        (HALFWAY, {"on_delete": True, "overdue": True}, Phase.MANUAL),
        (HALFWAY, {"paused": True, "overdue": True}, Phase.PAUSED),
        (HALFWAY, {"paused": True, "refused": "no"}, Phase.PAUSED),
        (HALFWAY, {"kept": 2, "target": 3}, Phase.PROGRESSING),
        (HELD, {"available": 4}, Phase.HELD),
        (HELD, {"done": 1}, Phase.DEGRADED),
        (HELD, {"kept": 0, "available": 3}, Phase.DEGRADED),
    ],
)
def test_the_first_in_order_wins(base: Standing, fields: dict[str, Any], phase: Phase) -> None:
    assert phase_of(replace(base, **fields)) is phase


@pytest.mark.parametrize("how", ["paused", "on_delete"])
def test_paused_and_manual_are_said_only_while_something_is_left_to_update(how: str) -> None:
    assert phase_of(replace(HEALTHY, **{how: True})) is Phase.HEALTHY
    assert phase_of(replace(HELD, **{how: True})) is Phase.HELD
    assert phase_of(replace(HEALTHY, done=4, available=4, **{how: True})) is Phase.DEGRADED


def test_until_the_last_new_pod_is_available_it_goes_on() -> None:
    last = replace(HEALTHY, done=4, available=4, completed=False)
    assert phase_of(last) is Phase.PROGRESSING
    assert phase_of(replace(last, overdue=True)) is Phase.STALLED


def test_there_are_nine() -> None:
    assert [one.value for one in Phase] == [
        "Pending",
        "Progressing",
        "Held",
        "Paused",
        "Stalled",
        "Manual",
        "Degraded",
        "Healthy",
        "Terminating",
    ]
