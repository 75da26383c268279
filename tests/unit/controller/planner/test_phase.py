"""The phases, where nodes stand, the progress deadline, and the events of a rollout."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.daemonset import Phase
from controller.api.names import LONGEST_PROGRESS_DEADLINE, PROGRESS_DEADLINE_ANNOTATION
from controller.planner.plan import plan
from controller.planner.progress import Standing, phase_of, standing_of
from controller.planner.rollout_state import rollout_state
from controller.planner.world import World
from tests.beds.kstatus import CURRENT, kstatus
from tests.beds.worlds import NOW, at, node, refusing, revision, taint
from tests.unit.controller.planner.test_partition import CANARY
from tests.unit.controller.planner.written import IN_PHASE, late, looked_at, shown, words

HEALTHY = Standing(desired=5, target=5, updated=5, done=5, available=5, completed=True)
HELD = replace(HEALTHY, target=2, updated=2, done=2, held_nodes=3)
HALFWAY = replace(HEALTHY, updated=3, done=3, left_to_update=2, completed=False)


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
        (HALFWAY, {"terminating": True}, Phase.TERMINATING),
        (Standing(completed=True), {}, Phase.HEALTHY),
        (Standing(refused="selector: empty"), {}, Phase.STALLED),
        (HALFWAY, {"terminating": True, "observed": False}, Phase.TERMINATING),
        (HALFWAY, {"observed": False, "on_delete": True}, Phase.PENDING),
        (HALFWAY, {"observed": False, "paused": True}, Phase.PENDING),
        (HEALTHY, {"observed": False}, Phase.PENDING),
        (HALFWAY, {"on_delete": True, "paused": True}, Phase.MANUAL),
        (HALFWAY, {"on_delete": True, "refused": "no"}, Phase.MANUAL),
        (HALFWAY, {"on_delete": True, "overdue": True}, Phase.MANUAL),
        (HALFWAY, {"paused": True, "overdue": True}, Phase.PAUSED),
        (HALFWAY, {"paused": True, "refused": "no"}, Phase.PAUSED),
        (HALFWAY, {"held_nodes": 2, "target": 3}, Phase.PROGRESSING),
        (HELD, {"available": 4}, Phase.HELD),
        (HELD, {"done": 1}, Phase.DEGRADED),
        (HELD, {"held_nodes": 0, "available": 3}, Phase.DEGRADED),
        (HEALTHY, {"paused": True}, Phase.HEALTHY),
        (HEALTHY, {"on_delete": True}, Phase.HEALTHY),
        (HEALTHY, {"on_delete": True, "aborted": "as it failed"}, Phase.HEALTHY),
        (HELD, {"paused": True}, Phase.HELD),
        (HELD, {"on_delete": True}, Phase.HELD),
        (HEALTHY, {"done": 4, "available": 4, "paused": True}, Phase.DEGRADED),
        (HEALTHY, {"done": 4, "available": 4, "on_delete": True}, Phase.DEGRADED),
        (HEALTHY, {"done": 4, "available": 4, "completed": False}, Phase.PROGRESSING),
        (HEALTHY, {"done": 4, "available": 4, "completed": False, "overdue": True}, Phase.STALLED),
    ],
)
def test_the_first_phase_in_order_wins(base: Standing, fields: dict[str, Any], phase: Phase) -> None:
    assert phase_of(replace(base, **fields)) is phase


CANARIES = [node("node-0", labels=CANARY), "node-1", "node-2"]
FIRST: dict[str, Any] = {"partition": 3, "selector": CANARY, "paused": True}
TAINTED = ["node-0", node("node-1", taint("x")), node("node-2", taint("x", "NoExecute"))]
MISSPELT: dict[str, Any] = {
    "revisions": [revision("v1"), revision("v2", 2, never_ran=True)],
    "verdicts": refusing("v2", unknown_fields=True),
}
FACTS: dict[str, tuple[World, dict[str, Any]]] = {
    "old nodes below the target are outdated, the others kept": (
        at("v1 v1 v1 v2 v2", partition=2),
        {"target": 3, "updated": 2, "done": 2, "left_to_update": 1, "held_nodes": 2},
    ),
    "the selector keeps those it leaves out": (
        at("v1 v1 v1", selector=CANARY, nodes=CANARIES),
        {"target": 1, "left_to_update": 1, "held_nodes": 2},
    ),
    "with a partition": (
        at("v1 v1 v1 v1 v2", partition=1),
        {"target": 4, "left_to_update": 3, "held_nodes": 1, "paused": False},
    ),
    "a pause takes nothing from that": (
        at("v1 v1 v1 v1 v2", partition=1, paused=True),
        {"target": 4, "left_to_update": 3, "held_nodes": 1, "paused": True},
    ),
    "OnDelete all may be updated": (
        at("v1 v1", on_delete=True),
        {"target": 2, "left_to_update": 2, "held_nodes": 0, "on_delete": True},
    ),
    "at a first deployment none is kept": (
        at("- - - - -", "v1", **FIRST),
        {"target": 5, "updated": 0, "left_to_update": 0, "held_nodes": 0},
    ),
    "with partitionedScaling its partition keeps nodes waiting": (
        at("v1 v1 - - -", "v1", partitioned_scaling=True, **FIRST),
        {"target": 2, "done": 2, "held_nodes": 3},
    ),
    "old pods of an unknown revision are kept by the partition: nodes that have a pod are no first deployment": (
        at("v1 v1 v1 v1 v1", partition=2, revisions=[revision("v2")]),
        {"target": 3, "left_to_update": 3, "held_nodes": 2},
    ),
    "a node is done when the new pod is available and the old one gone": (
        at("v1+v2 v2! v2", max_surge=1),
        {"updated": 3, "done": 1, "available": 2},
    ),
    "a node that lost its kept pod is still kept": (
        at("- v2 v2", partition=1, revisions=[revision("v1"), revision("v2")]),
        {"target": 2, "done": 2, "held_nodes": 1},
    ),
    "nodes that should run none do not count": (
        at("v1 v1 v1", nodes=TAINTED),
        {"desired": 1, "target": 1, "left_to_update": 1, "available": 1},
    ),
    "a refusal counts while something is left to update": (at("v1 v1", verdicts=refusing("v2")), {"refused": "no"}),
    "one for unknown fields also for nodes that lose their pod": (
        at("v1 v1 v1", partition=3, nodes=TAINTED, **MISSPELT),
        {"refused": "no"},
    ),
    "and where none is eligible": (
        at("-", nodes=[node("node-0", taint("x", "NoExecute"))], **MISSPELT),
        {"refused": "no"},
    ),
    "and not after": (at("v2 v2", verdicts=refusing("v2")), {"refused": ""}),
}


@pytest.mark.parametrize(("of", "expected"), FACTS.values(), ids=FACTS)
def test_where_the_nodes_stand(of: World, expected: dict[str, Any]) -> None:
    there = standing_of(rollout_state(of), observed=True)
    assert {name: getattr(there, name) for name in expected} == expected


def deadline(text: str) -> World:
    return looked_at(at("v1 v1 v1", "v1", annotations={PROGRESS_DEADLINE_ANNOTATION: text}))


@pytest.mark.parametrize("text", ["", "0", "-5", "10m", "1.5", "600 ", "+60", "٣", "2147483648", "9" * 5000])
def test_a_deadline_that_cannot_be_read_is_reported_and_ten_minutes_are_taken(text: str) -> None:
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
    found = at("v1 v1 v2!", annotations={PROGRESS_DEADLINE_ANNOTATION: "1h"})
    status, reason, message = words(late(found), "Stalled")
    assert (status, reason) == ("True", "ProgressDeadlineExceeded")
    assert message.startswith("no progress for 600 seconds; ")
    assert "'1h' is not a whole number of seconds" in message


def test_a_refusal_is_no_missed_deadline() -> None:
    assert ("ProgressDeadlineExceeded", True) not in reasons(at("v1 v1", verdicts=refusing("v2")))


def reasons(of: World) -> list[tuple[str, bool]]:
    return [(one.reason, one.warning) for one in plan(of).rollout_events]


def passes(*worlds: World) -> Iterable[list[tuple[str, bool]]]:
    """The rollout events of each of these worlds, every one with the status that the one before has left."""
    before: World | None = None
    for one in worlds:
        status = before.daemonset.status if before else one.daemonset.status
        current = replace(one, daemonset=replace(one.daemonset, status=status))
        yield reasons(current)
        before = looked_at(current)
        assert reasons(before) == [], "told once"


def test_what_becomes_of_a_rollout_is_reported_once() -> None:
    going, complete = at("v1 v1 v2!"), at("v2 v2 v2")
    unwell = replace(complete, pods=(*complete.pods[:-1], replace(complete.pods[-1], ready=False)))
    told = passes(going, replace(going, now=NOW + 601), complete, unwell, complete)
    assert list(told) == [[], [("ProgressDeadlineExceeded", True)], [("RolloutComplete", False)], [], []]


def test_a_rollout_that_holds_is_reported_at_every_step() -> None:
    told = passes(at("v1 v1 v1", partition=1), at("v1 v2 v2", partition=1), at("v1 v2 v2", partition=0))
    assert list(told) == [[], [("RolloutHeld", False)], []]


def test_a_takeover_of_well_pods_is_no_news() -> None:
    assert reasons(at("v1 v1 v1", "v1")) == []


def test_an_unreadable_deadline_is_reported_once_and_again_when_it_changes() -> None:
    def asked(text: str) -> World:
        return at("v1 v1 v1", "v1", annotations={PROGRESS_DEADLINE_ANNOTATION: text})

    told = passes(asked("soon"), asked("60"), asked("soon"), asked("later"))
    told_once = [("InvalidAnnotation", True)]
    assert list(told) == [told_once, [], told_once, told_once]
