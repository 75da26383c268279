"""The nine phases, where nodes stand, the progress deadline, and the events of a rollout."""

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
from tests.beds.worlds import NOW, ds, everywhere, node, pod, refusing, revision, served, taint, world
from tests.unit.controller.planner.test_partition import CANARY
from tests.unit.controller.planner.written import BETWEEN, IN_PHASE, late, looked_at, shown, words

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
        (HALFWAY, {"terminating": True}, Phase.TERMINATING),
        (Standing(completed=True), {}, Phase.HEALTHY),
        (Standing(refused="selector: empty"), {}, Phase.STALLED),
    ],
)
def test_each_phase(base: Standing, fields: dict[str, Any], phase: Phase) -> None:
    assert phase_of(replace(base, **fields)) is phase


@pytest.mark.parametrize(
    ("base", "fields", "phase"),
    [
        (HALFWAY, {"terminating": True, "observed": False}, Phase.TERMINATING),
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


def facts(of: World) -> Standing:
    return standing_of(rollout_state(of), observed=True)


def test_old_nodes_below_the_target_are_outdated_and_the_others_kept() -> None:
    pods = (*served("node-3", "node-4", rev="v2"), *served("node-0", "node-1", "node-2"))
    there = facts(world(ds("v2", partition=2), pods=pods))
    assert (there.target, there.updated, there.done, there.outdated, there.kept) == (3, 2, 2, 1, 2)


def test_the_selector_keeps_those_it_leaves_out() -> None:
    nodes = [node("node-0", labels=CANARY), "node-1", "node-2"]
    there = facts(world(ds("v2", selector=CANARY), nodes=nodes, pods=everywhere(3)))
    assert (there.target, there.outdated, there.kept) == (1, 1, 2)


@pytest.mark.parametrize("paused", [False, True])
def test_a_pause_takes_nothing_from_the_target(paused: bool) -> None:
    pods = (*served("node-4", rev="v2"), *served("node-0", "node-1", "node-2", "node-3"))
    there = facts(world(ds("v2", paused=paused, partition=1), pods=pods))
    assert (there.target, there.outdated, there.kept, there.paused) == (4, 3, 1, paused)


def test_on_delete_all_may_be_updated() -> None:
    there = facts(world(ds("v2", on_delete=True), pods=everywhere(5)))
    assert (there.target, there.outdated, there.kept, there.on_delete) == (5, 5, 0, True)


def test_at_a_first_deployment_nobody_is_kept() -> None:
    there = facts(world(ds(partition=3, selector=CANARY, paused=True), pods=()))
    assert (there.target, there.updated, there.outdated, there.kept) == (5, 0, 0, 0)


def test_with_partitioned_scaling_a_first_partition_keeps_nodes_waiting() -> None:
    first = ds(partition=3, partitioned_scaling=True, selector=CANARY, paused=True)
    there = facts(world(first, pods=served("node-0", "node-1")))
    assert (there.target, there.done, there.kept) == (2, 2, 3)


def test_old_pods_of_an_unknown_revision_are_kept_by_the_partition() -> None:
    """No older revision is stored, and yet it is no first deployment for nodes that have a pod."""
    there = facts(world(ds("v2", partition=2), pods=everywhere(5), revisions=[revision("v2")]))
    assert (there.target, there.outdated, there.kept) == (3, 3, 2)


def test_a_node_is_done_when_the_new_pod_is_available_and_the_old_one_gone() -> None:
    pods = [pod("node-0"), pod("node-0", "v2"), pod("node-1", "v2", ready=None), pod("node-2", "v2")]
    there = facts(world(ds("v2", max_surge=1), nodes=3, pods=pods))
    assert (there.updated, there.done, there.available) == (3, 1, 2)


def test_a_node_that_lost_its_kept_pod_is_still_kept() -> None:
    pods = served("node-2", "node-1", rev="v2")
    there = facts(world(ds("v2", partition=1), nodes=3, pods=pods, revisions=[revision("v1"), revision("v2")]))
    assert (there.target, there.done, there.kept) == (2, 2, 1)


def test_nodes_that_should_run_none_do_not_count() -> None:
    nodes = ["node-0", node("node-1", taint("x")), node("node-2", taint("x", "NoExecute"))]
    there = facts(world(ds("v2"), nodes=nodes, pods=everywhere(3)))
    assert (there.desired, there.target, there.outdated, there.available) == (1, 1, 1, 1)


def test_a_refusal_counts_while_something_is_left_to_update() -> None:
    assert facts(world(ds("v2"), pods=everywhere(5), verdicts=refusing("v2"))).refused == "no"
    assert facts(world(ds("v2"), pods=everywhere(5, "v2"), verdicts=refusing("v2"))).refused == ""


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


def test_what_becomes_of_a_rollout_is_told_once() -> None:
    going = world(ds("v2"), nodes=3, pods=BETWEEN)
    complete = world(ds("v2"), nodes=3, pods=served("node-0", "node-1", "node-2", rev="v2"))
    unwell = replace(complete, pods=(*complete.pods[:-1], replace(complete.pods[-1], ready=False)))
    told = passes(going, replace(going, now=NOW + 601), complete, unwell, complete)
    assert list(told) == [
        [],
        [("ProgressDeadlineExceeded", True)],
        [("RolloutComplete", False)],
        [],
        [],
    ]


def test_a_rollout_that_holds_is_told_at_every_step() -> None:
    def step(partition: int, *updated: str) -> World:
        old = [f"node-{number}" for number in range(3) if f"node-{number}" not in updated]
        pods = (*served(*old), *served(*updated, rev="v2"))
        return world(ds("v2", partition=partition), nodes=3, pods=pods)

    told = passes(step(1), step(1, "node-1", "node-2"), step(0, "node-1", "node-2"))
    assert list(told) == [[], [("RolloutHeld", False)], []]


def test_a_takeover_of_well_pods_is_no_news() -> None:
    assert reasons(world(nodes=3, pods=everywhere(3))) == []


def test_an_unreadable_deadline_is_told_once_and_again_when_it_changes() -> None:
    def asked(text: str) -> World:
        return world(ds(annotations={PROGRESS_DEADLINE_ANNOTATION: text}), nodes=3, pods=everywhere(3))

    told = passes(asked("soon"), asked("60"), asked("soon"), asked("later"))
    assert list(told) == [
        [("InvalidAnnotation", True)],
        [],
        [("InvalidAnnotation", True)],
        [("InvalidAnnotation", True)],
    ]
