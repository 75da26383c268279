"""The annotation of the deadline: what can be read, what is told of what cannot, and when it counts."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.api.daemonset import Phase
from controller.api.wellknown import LONGEST_PROGRESS_DEADLINE, PROGRESS_DEADLINE_ANNOTATION
from controller.planner.world import World
from tests.beds.kstatus import CURRENT, kstatus
from tests.beds.worlds import ds, everywhere, world
from tests.unit.controller.planner.written import BETWEEN, IN_PHASE, late, looked_at, shown, words


def deadline(text: str) -> World:
    return looked_at(world(ds(annotations={PROGRESS_DEADLINE_ANNOTATION: text}), nodes=3, pods=everywhere(3)))


@pytest.mark.parametrize("text", ["", "0", "-5", "10m", "1.5", "600 ", "+60", "٣", "2147483648", "9" * 5000])
def test_a_deadline_that_cannot_be_read_is_told_and_ten_minutes_are_taken(text: str) -> None:
    found = deadline(text)
    assert found.daemonset.progress_deadline == 600
    status, reason, message = words(found, "Stalled")
    assert (status, reason) == ("False", "InvalidAnnotation")
    assert message.startswith(f"annotation {PROGRESS_DEADLINE_ANNOTATION}: ")
    assert message.endswith("is not a whole number of seconds from 1 to 2147483647, so 600 are used")
    assert len(message) < 250
    assert kstatus(shown(found.daemonset)) == CURRENT


@pytest.mark.parametrize("text", ["1", "600", "0600", "999999999", str(LONGEST_PROGRESS_DEADLINE)])
def test_a_deadline_that_can_be_read_is_taken(text: str) -> None:
    found = deadline(text)
    assert found.daemonset.progress_deadline == int(text)
    assert words(found, "Stalled") == ("False", "AsExpected", "")


@pytest.mark.parametrize(("text", "phase"), [("60", "Stalled"), ("602", "Progressing"), ("none", "Stalled")])
def test_another_deadline_counts_at_once(text: str, phase: str) -> None:
    stalled = IN_PHASE[Phase.STALLED]
    asked = replace(stalled.daemonset, annotations={PROGRESS_DEADLINE_ANNOTATION: text})
    found = looked_at(replace(stalled, daemonset=asked))
    assert words(found, "Ready")[1] == phase
    assert words(found, "Stalled")[0] == str(phase == "Stalled")


def test_stalled_also_says_that_the_deadline_could_not_be_read() -> None:
    found = world(ds("v2", annotations={PROGRESS_DEADLINE_ANNOTATION: "1h"}), nodes=3, pods=BETWEEN)
    status, reason, message = words(late(found), "Stalled")
    assert (status, reason) == ("True", "ProgressDeadlineExceeded")
    assert message.startswith("no progress for 600 seconds; ")
    assert "'1h' is not a whole number of seconds" in message
