"""What ends a wait and in which words, off the nodes as by the controller's word; metrics say the same."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controller.api.containers import PodProblem
from controller.api.daemonset import DaemonSetStatus, Phase, Rollout
from controller.api.formats import IntOrPercent
from controller.api.names import DEGRADED, PROGRESS_DEADLINE_ANNOTATION, TEMPLATE_REFUSED, WRITES_FAIL
from controller.api.objects import JSON, StatusWriters, rfc3339
from controller.planner.summary import ZoneState
from controller.planner.world import World
from kubectl_plugin.errors import ExitCode
from kubectl_plugin.rollout.reasons import reason_of
from kubectl_plugin.rollout.snapshot import PodDetail, Snapshot, Unread
from kubectl_plugin.rollout.status import RolloutStatus, status_at
from kubectl_plugin.rollout.survey import Survey, phase_in, record_of, survey, survey_of_status
from kubectl_plugin.rollout.wait import Awaited, WaitResult, result_of, unfinished_result
from tests.beds.snapshots import container, crashing, detail, of_world
from tests.beds.worlds import ago, ds, pod, served, world
from tests.unit.controller.planner.test_summary import TABLE, summary

DEADLINE = 600.0


def overdue(seconds: float, *, told: Phase = Phase.PROGRESSING) -> Survey:
    """node-1 has had its new pod for long and it is not ready; the deadline passed `seconds` ago."""
    record = Rollout(
        phase=told,
        start_time=rfc3339(ago(3000)),
        last_transition_time=rfc3339(ago(seconds if told is Phase.STALLED else 3000)),
        last_progress_time=rfc3339(ago(DEADLINE + seconds)),
        most_updated=1,
        target=2,
    )
    status = DaemonSetStatus(observed_generation=1, update_revision="v2", rollout=record)
    pods = (*served("node-0"), pod("node-1", "v2", ready=None, created=ago(2000)))
    return survey(of_world(world(replace(ds("v2"), status=status), pods=pods, nodes=2)))


@pytest.mark.parametrize(
    ("seconds", "given", "code"),
    [
        (-1.0, {}, None),
        (1.0, {}, None),
        (59.0, {}, None),
        (60.0, {}, ExitCode.STUCK),
        (61.0, {}, ExitCode.STUCK),
        (1.0, {"told": Phase.STALLED}, ExitCode.STUCK),
    ],
)
def test_the_clock_of_this_machine_alone_is_not_trusted_for_a_minute(
    seconds: float, given: dict[str, Any], code: int | None
) -> None:
    seen = overdue(seconds, **given)
    assert seen.phase is (Phase.STALLED if seconds >= 0 else Phase.PROGRESSING)
    result = result_of(RolloutStatus(survey=seen), Awaited())
    assert (result and result.code) == code


NOBODY = "waiting for a controller to see generation 1 (last seen: none)"


@pytest.mark.parametrize(
    ("writers", "why"),
    [
        (StatusWriters(), NOBODY),
        (StatusWriters(ours=100.0), NOBODY),
        (StatusWriters(ours=101.0, theirs=100.0, other="kruise-manager"), NOBODY),
        (
            StatusWriters(ours=100.0, theirs=101.0, other="kruise-manager"),
            "waiting for kruise-manager to stop writing the status; last seen: generation none",
        ),
    ],
)
def test_another_controller_that_wrote_the_status_after_ours_is_named(writers: StatusWriters, why: str) -> None:
    daemonset = replace(ds(), status=DaemonSetStatus(), status_writers=writers)
    assert reason_of(survey_of_status(of_world(world(daemonset)))).text == why


def test_it_is_named_in_the_middle_of_a_rollout_too() -> None:
    status = DaemonSetStatus(observed_generation=1)

    def looked_at(**fields: Any) -> Survey:
        daemonset = replace(ds("v2"), status=status, **fields)
        return survey(of_world(world(daemonset, nodes=2, pods=(pod("node-0"), pod("node-1")))))

    seen = looked_at(status_writers=StatusWriters(ours=100.0, theirs=101.0, other="kruise-manager"))
    assert seen.phase is Phase.PROGRESSING
    assert reason_of(seen).text == "waiting for kruise-manager to stop writing the status"
    assert "kruise-manager" not in reason_of(looked_at()).text


@pytest.mark.parametrize(
    ("partition", "counts", "phase", "progress"),
    [
        (16, (24, 24, 8, 24), "Held", (8, 8)),
        ("67%", (24, 24, 8, 24), "Held", (8, 8)),
        (16, (24, 24, 8, 23), "Held", (8, 8)),
        (16, (24, 24, 5, 24), "Progressing", (5, 8)),
        (16, (24, 24, 24, 24), "Healthy", (8, 8)),
        (16, (24, 9, 9, 8), "Progressing", (8, 24)),
        (40, (24, 24, 0, 24), "Held", (0, 0)),
        (0, (24, 24, 24, 24), "Healthy", (24, 24)),
        (0, (24, 24, 24, 20), "Degraded", (20, 24)),
        ("most", (24, 24, 8, 24), "Progressing", (8, 24)),
    ],
)
def test_the_partition_is_no_part_of_the_target(
    partition: IntOrPercent, counts: tuple[int, int, int, int], phase: str, progress: tuple[int, int]
) -> None:
    desired, scheduled, updated, available = counts
    status = DaemonSetStatus(
        observed_generation=1,
        desired_number_scheduled=desired,
        current_number_scheduled=scheduled,
        updated_number_scheduled=updated,
        number_available=available,
    )
    told = record_of(msgspec.structs.replace(ds(partition=partition), status=status))
    assert (told.phase, (told.done, told.target)) == (phase, progress)


@pytest.mark.parametrize("phase", Phase)
def test_a_phase_that_the_record_names_is_taken_at_its_word(phase: Phase) -> None:
    assert phase_in(Rollout(phase=phase.value)) is phase


SAID = {PodProblem.IMAGE_PULL: "ErrImagePull", PodProblem.CONFIG: "CreateContainerConfigError"}


def as_read(of: World) -> dict[str, PodDetail]:
    """By node: what the plugin reads of a pod that ails."""
    found = {}
    for one in of.pods:
        match one.problem:
            case PodProblem.CRASH_LOOP:
                found[one.node] = detail(one, crashing())
            case PodProblem.UNSCHEDULABLE:
                found[one.node] = detail(one, unschedulable="0/5 nodes are available")
            case PodProblem.IMAGE_PULL | PodProblem.CONFIG as problem:
                found[one.node] = detail(one, container(ready=False, waiting=SAID[problem]))
    return found


@pytest.mark.parametrize("of", [of for of, _ in TABLE.values()], ids=TABLE)
def test_both_say_the_same_of_the_same_world(of: World) -> None:
    seen, counts = summary(of), survey(of_world(of, as_read(of))).counts
    numbers = {state: sum(zone[state] for zone in seen.zones.values()) for state in ZoneState}
    assert (numbers[ZoneState.UPDATED], numbers[ZoneState.FAILED]) == (counts.updated, counts.failing)
    assert (sum(numbers.values()), seen.unplanned) == (counts.desired, counts.unplanned)
    assert counts.updating <= numbers[ZoneState.UPDATING] <= counts.updating + counts.missing
    assert counts.next + counts.old <= numbers[ZoneState.OLD] <= counts.next + counts.old + counts.missing


OLD, NEW = served("node-0", "node-1"), served("node-0", "node-1", rev="v2")
MIXED = (*served("node-0"), *served("node-1", rev="v2"))
ILL = (*served("node-0", rev="v2"), pod("node-1", "v2", ready=None, created=ago(2000)))


def recorded(
    phase: Phase, pods: tuple[Any, ...], *conditions: dict[str, JSON], target: int = 2, seen: int = 1, **spec: Any
) -> Snapshot:
    """Two nodes, and a controller that says what the nodes say too."""
    updated = sum(one.hash == "v2" for one in pods)
    done = sum(one.hash == "v2" and one.ready for one in pods)
    long_ago = rfc3339(ago(3000))
    status = DaemonSetStatus(
        observed_generation=seen,
        desired_number_scheduled=2,
        current_number_scheduled=2,
        updated_number_scheduled=updated,
        number_available=sum(bool(one.ready) for one in pods),
        update_revision="v2",
        conditions=conditions,
        rollout=Rollout(
            phase=phase,
            start_time=long_ago,
            last_transition_time=rfc3339(ago(2000)),
            last_progress_time=long_ago,
            completion_time=long_ago if phase in (Phase.HEALTHY, Phase.DEGRADED) else None,
            most_done=done,
            most_updated=updated,
            target=target,
            done=done,
        ),
    )
    return of_world(world(replace(ds("v2", **spec), status=status), pods=pods, nodes=2))


def degraded(reason: str, message: str) -> dict[str, JSON]:
    return {"type": DEGRADED, "status": "True", "reason": reason, "message": message, "observedGeneration": 1}


def without_hints(result: WaitResult | None) -> tuple[Any, ...]:
    if result is None:
        return (None,)
    return result.code, result.error and result.error.message, result.warning


PATIENT = {PROGRESS_DEADLINE_ANNOTATION: "9000"}
REFUSED = degraded(TEMPLATE_REFUSED, 'pods "agent-tried" is forbidden: privileged')
UNWRITABLE = degraded(WRITES_FAIL, "quota is used up")
CASES = {
    "healthy": recorded(Phase.HEALTHY, NEW),
    "held": recorded(Phase.HELD, MIXED, target=1, partition=1),
    "paused": recorded(Phase.PAUSED, MIXED, paused=True),
    "on delete": recorded(Phase.MANUAL, MIXED, on_delete=True),
    "refused": recorded(Phase.STALLED, OLD, REFUSED),
    "stalled": recorded(Phase.STALLED, ILL),
    "stalled for writes": recorded(Phase.STALLED, MIXED, UNWRITABLE),
    "on its way": recorded(Phase.PROGRESSING, MIXED, annotations=PATIENT),
    "on its way, writes fail": recorded(Phase.PROGRESSING, MIXED, UNWRITABLE, annotations=PATIENT),
    "pending": recorded(Phase.HEALTHY, OLD, seen=0),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    "wanted",
    [
        Awaited(),
        Awaited(require_full=True),
        Awaited(revision=2),
        Awaited(revision=1),
        Awaited(generation=1),
        Awaited(generation=0),
        Awaited(generation=2),
    ],
    ids=repr,
)
@pytest.mark.parametrize("missing", [(), (Unread(what="controllerrevisions"),)])
def test_both_end_alike(case: str, wanted: Awaited, missing: tuple[str, ...]) -> None:
    snapshot = replace(CASES[case], unread=missing)
    if missing:
        snapshot = replace(snapshot, revisions=())
    off_the_nodes, by_its_word = status_at(snapshot, "zone"), RolloutStatus(survey=survey_of_status(snapshot))
    assert off_the_nodes.phase is by_its_word.phase
    assert without_hints(result_of(off_the_nodes, wanted)) == without_hints(result_of(by_its_word, wanted))
    if off_the_nodes.phase is not Phase.PENDING:  # of which the controller has not counted the target
        assert off_the_nodes.progress == by_its_word.progress
        assert without_hints(unfinished_result(off_the_nodes, "5m")) == without_hints(
            unfinished_result(by_its_word, "5m")
        )


def test_what_the_server_refuses_is_reported_without_the_pod_that_was_tried() -> None:
    result = result_of(RolloutStatus(survey=survey_of_status(CASES["refused"])), Awaited())
    assert result is not None
    assert result.error is not None
    assert result.error.message.endswith("is refused: privileged")


def test_a_phase_of_a_later_controller_ends_no_wait() -> None:
    """By its word alone, and off pods whose nodes may not be listed."""
    held = CASES["healthy"]
    status = held.daemonset.status
    assert status is not None
    assert status.rollout is not None
    later = replace(status, rollout=replace(status.rollout, phase="Verifying"))
    snapshot = replace(held, daemonset=replace(held.daemonset, status=later), nodes=None)
    for seen in (RolloutStatus(survey=survey_of_status(snapshot)), status_at(snapshot, "zone")):
        assert (seen.phase, seen.progress) == (Phase.PROGRESSING, "Progressing 2/2 updated")
        assert result_of(seen, Awaited()) is None
