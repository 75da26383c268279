"""Ready, Reconciling and Stalled in each of the nine phases, and what kstatus and `kubectl wait` make of them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSet
from controller.api.meta import rfc3339
from controller.api.wellknown import (
    CONDITION_TYPES,
    LONGEST_PROGRESS_DEADLINE,
    PROGRESS_DEADLINE_ANNOTATION,
    TAINT_UNREACHABLE,
)
from controller.daemonset.memory import Memory
from controller.daemonset.status_writer import change_of
from controller.planner.phase import Phase
from controller.planner.plan import plan
from controller.planner.readiness import READINGS
from controller.planner.world import World
from tests.builders import NOW, ds, everywhere, node, pod, served, taint, world
from tests.kit.api import Object
from tests.kit.kstatus import CURRENT, FAILED, IN_PROGRESS, READ_AS, kstatus, waited_for

BETWEEN = (*everywhere(3)[:2], pod("node-2", "v2", ready=None))
"""Three nodes in the middle of an update."""


def looked_at(found: World) -> World:
    """The same world once the controller has written the status that it wants there."""
    decided = plan(found)
    assert decided.status is not None
    change = change_of(found.daemonset, decided.status, Memory(), found.now)
    if change is None:
        return found
    return replace(found, daemonset=replace(found.daemonset, status=change.result))


def shown(daemonset: DaemonSet) -> Object:
    """As the API server shows it, as far as anybody looks here."""
    metadata: Object = {"generation": daemonset.generation}
    if daemonset.dying:
        metadata["deletionTimestamp"] = rfc3339(NOW)
    status: Object = {}
    if daemonset.status is not None:
        conditions = msgspec.to_builtins(daemonset.status.conditions)
        status = {"observedGeneration": daemonset.status.observed_generation, "conditions": conditions}
    return {"metadata": metadata, "status": status}


def late(found: World) -> World:
    return looked_at(replace(looked_at(found), now=NOW + 601))


def sick(found: World) -> World:
    """A pod gets unready after all were well."""
    done = looked_at(found)
    return looked_at(replace(done, pods=(*done.pods[:-1], replace(done.pods[-1], ready=False))))


IN_PHASE = {
    Phase.PENDING: looked_at(world(ds(generation=2), nodes=3)),
    Phase.PROGRESSING: looked_at(world(ds("v2"), nodes=3, pods=BETWEEN)),
    Phase.HELD: looked_at(world(ds("v2", partition=3), nodes=3, pods=everywhere(3))),
    Phase.PAUSED: looked_at(world(ds("v2", paused=True), nodes=3, pods=everywhere(3))),
    Phase.STALLED: late(world(ds("v2"), nodes=3, pods=BETWEEN)),
    Phase.MANUAL: looked_at(world(ds("v2", on_delete=True), nodes=3, pods=everywhere(3))),
    Phase.DEGRADED: sick(world(nodes=3, pods=everywhere(3))),
    Phase.HEALTHY: looked_at(world(nodes=3, pods=everywhere(3))),
    Phase.TERMINATING: replace(
        looked_at(world(nodes=3, pods=everywhere(3))),
        daemonset=replace(looked_at(world(nodes=3, pods=everywhere(3))).daemonset, dying=True),
    ),
}


def conditions(of: World) -> dict[str, Object]:
    status = of.daemonset.status
    assert status is not None
    assert status.conditions is not None
    return {str(one["type"]): dict(one) for one in status.conditions}


def words(of: World, kind: str) -> tuple[str, str, str]:
    one = conditions(of)[kind]
    return one["status"], one["reason"], one["message"]


@pytest.mark.parametrize("phase", Phase)
def test_kstatus_reads_each_phase(phase: Phase) -> None:
    found = IN_PHASE[phase].daemonset
    assert found.status is not None
    assert found.status.rollout is not None
    assert found.status.rollout.phase == (Phase.HEALTHY if phase is Phase.TERMINATING else phase)
    assert kstatus(shown(found)) == READ_AS[phase]


@pytest.mark.parametrize("phase", [one for one in Phase if one is not Phase.TERMINATING])
def test_all_three_are_there_and_at_most_one_is_true(phase: Phase) -> None:
    found = conditions(IN_PHASE[phase])
    true = [kind for kind in ("Ready", "Reconciling", "Stalled") if found[kind]["status"] == "True"]
    assert len(true) <= 1
    assert found["Ready"]["reason"] == phase
    assert found["Ready"]["message"], "a person wants to know"
    assert all(found[kind]["reason"] for kind in found), "a reason is never empty"


def test_every_phase_has_a_reading() -> None:
    assert set(READINGS) == set(Phase)
    assert all(one.ready + one.reconciling + one.stalled <= 1 for one in READINGS.values())


@pytest.mark.parametrize(
    ("phase", "message"),
    [
        (Phase.PENDING, "3 of 3 nodes still wait for an available pod of revision v1"),
        (Phase.PROGRESSING, "3 of 3 nodes still wait for an available pod of revision v2"),
        (
            Phase.HELD,
            "0 of 3 nodes have an available pod of revision v2; partition 3 keeps the others on the old revision",
        ),
        (Phase.PAUSED, "paused with 3 nodes left to update"),
        (
            Phase.STALLED,
            "no progress for 600 seconds; no new pod is available on node-2; "
            "1 nodes count as unavailable, maxUnavailable is 1",
        ),
        (Phase.MANUAL, "OnDelete: 3 nodes wait for their old pod to be deleted"),
        (Phase.DEGRADED, "1 of 3 nodes no longer have an available pod of revision v1"),
        (Phase.HEALTHY, "3 of 3 nodes have an available pod of revision v1"),
    ],
)
def test_the_message_of_ready_is_a_sentence(phase: Phase, message: str) -> None:
    assert words(IN_PHASE[phase], "Ready")[2] == message


@pytest.mark.parametrize(("fields", "phase"), [({"paused": True}, "paused"), ({"on_delete": True}, "OnDelete")])
def test_where_it_is_ready_though_nodes_are_unserved_the_message_says_so(fields: dict[str, bool], phase: str) -> None:
    status, _, message = words(looked_at(world(ds("v2", **fields), nodes=3, pods=BETWEEN)), "Ready")  # type: ignore[arg-type]
    assert status == "True"
    assert message.startswith(phase)
    assert message.endswith("; 1 of 3 nodes have no available pod")


def test_a_held_rollout_tells_kept_nodes_that_are_unserved() -> None:
    pods = (*served("node-0"), pod("node-1", ready=None), *served("node-2", rev="v2"))
    _, reason, message = words(looked_at(world(ds("v2", partition=2), nodes=3, pods=pods)), "Ready")
    assert reason == "Held"
    assert message.startswith("1 of 3 nodes have an available pod of revision v2; partition 2 keeps")
    assert message.endswith("; 1 of 3 nodes have no available pod")


def test_a_refused_template_is_stalled_and_says_why() -> None:
    refused = looked_at(world(ds("v2"), nodes=3, pods=everywhere(3), verdicts={"v2": "no such field"}))
    assert words(refused, "Stalled") == (
        "True",
        "TemplateRefused",
        "the server refuses pods of the new template: no such field",
    )
    assert words(refused, "Ready")[:2] == ("False", "Stalled")
    assert kstatus(shown(refused.daemonset)) == FAILED


def test_an_unusable_spec_is_stalled_for_kubectl_wait_but_its_generation_is_not_observed() -> None:
    unusable = looked_at(world(ds("v2", partition="half", generation=4), pods=everywhere(5)))
    assert words(unusable, "Stalled")[:2] == ("True", "InvalidSpec")
    assert waited_for(shown(unusable.daemonset), "Stalled")
    assert kstatus(shown(unusable.daemonset)) == IN_PROGRESS, "nothing could be done with this generation (D10)"


def test_a_blocker_is_the_reason_of_reconciling() -> None:
    silent = [node(name, taint(TAINT_UNREACHABLE, "NoExecute")) for name in ("node-0", "node-1")]
    stuck = looked_at(world(ds("v2"), nodes=silent, pods=everywhere(2)))
    told = "2 of 2 nodes still wait for an available pod of revision v2; it is the turn of unreachable nodes: "
    assert words(stuck, "Reconciling") == ("True", "NodesUnreachable", f"{told}node-1, node-0")
    assert words(stuck, "Ready")[:2] == ("False", "Progressing")


@pytest.mark.parametrize("phase", [one for one in Phase if one is not Phase.TERMINATING])
def test_a_condition_of_an_older_generation_satisfies_no_wait(phase: Phase) -> None:
    found = IN_PHASE[phase].daemonset
    edited = shown(replace(found, generation=found.generation + 1))
    assert kstatus(edited) == IN_PROGRESS
    assert not any(waited_for(edited, kind, status) for kind in CONDITION_TYPES for status in ("True", "False"))


def test_an_edit_of_the_template_is_not_ready_before_the_controller_took_it_in() -> None:
    healthy = IN_PHASE[Phase.HEALTHY]
    edited = replace(ds("v2", generation=2), status=healthy.daemonset.status)
    taken_in = looked_at(world(edited, nodes=3, pods=everywhere(3), revisions=()))
    assert words(taken_in, "Ready")[:2] == ("False", "Pending")
    assert not waited_for(shown(taken_in.daemonset), "Ready")


@pytest.mark.parametrize("phase", [one for one in Phase if one is not Phase.TERMINATING])
def test_time_alone_writes_none_of_them(phase: Phase) -> None:
    found = IN_PHASE[phase]
    later = replace(found, now=found.now + 0.5)
    decided = plan(later)
    assert decided.status is not None
    assert change_of(later.daemonset, decided.status, Memory(), later.now) is None


def deadline(text: str) -> World:
    return looked_at(world(ds(annotations={PROGRESS_DEADLINE_ANNOTATION: text}), nodes=3, pods=everywhere(3)))


@pytest.mark.parametrize("text", ["", "0", "-5", "10m", "1.5", "600 ", "+60", "٣", "2147483648", "9" * 5000])
def test_a_deadline_that_cannot_be_read_is_told_and_ten_minutes_are_taken(text: str) -> None:
    found = deadline(text)
    assert found.daemonset.progress_deadline == 600
    status, reason, message = words(found, "Stalled")
    assert (status, reason) == ("False", "InvalidAnnotation")
    assert message.startswith(f"annotation {PROGRESS_DEADLINE_ANNOTATION}: ")
    assert message.endswith("is not a whole number of seconds from 1 to 2147483647, so 600 are taken")
    assert len(message) < 250
    assert kstatus(shown(found.daemonset)) == CURRENT


@pytest.mark.parametrize("text", ["1", "600", "0600", "999999999", str(LONGEST_PROGRESS_DEADLINE)])
def test_a_deadline_that_can_be_read_is_taken(text: str) -> None:
    found = deadline(text)
    assert found.daemonset.progress_deadline == int(text)
    assert words(found, "Stalled") == ("False", "AsExpected", "")


def reasons(of: World) -> list[tuple[str, bool]]:
    return [(one.reason, one.warning) for one in plan(of).news]


def passes(*worlds: World) -> Iterable[list[tuple[str, bool]]]:
    """The news of each of these worlds, every one with the status that the one before has left."""
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


def test_a_deadline_that_cannot_be_read_is_told_once_and_again_when_it_changes() -> None:
    def asked(text: str) -> World:
        return world(ds(annotations={PROGRESS_DEADLINE_ANNOTATION: text}), nodes=3, pods=everywhere(3))

    told = passes(asked("soon"), asked("60"), asked("soon"), asked("later"))
    assert list(told) == [
        [("InvalidAnnotation", True)],
        [],
        [("InvalidAnnotation", True)],
        [("InvalidAnnotation", True)],
    ]
