"""How waiting ends and what is said of it: the same off the nodes as by the controller's word."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSetStatus, Phase, Rollout
from controller.api.names import DEGRADED, PROGRESS_DEADLINE_ANNOTATION, TEMPLATE_REFUSED, WRITES_FAIL
from controller.api.objects import JSON, rfc3339
from kubectl_plugin.rollout.snapshot import Snapshot, Unread
from kubectl_plugin.rollout.status import RolloutStatus, status_at
from kubectl_plugin.rollout.wait import Awaited, WaitResult, result_of, unfinished_result
from tests.beds.snapshots import of_world
from tests.beds.worlds import ago, ds, pod, served, world

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
    off_the_nodes, by_its_word = status_at(snapshot, "zone"), RolloutStatus(snapshot=snapshot)
    assert off_the_nodes.phase is by_its_word.phase
    assert without_hints(result_of(off_the_nodes, wanted)) == without_hints(result_of(by_its_word, wanted))
    if off_the_nodes.phase is not Phase.PENDING:  # of which the controller has not counted the target
        assert off_the_nodes.progress == by_its_word.progress
        assert without_hints(unfinished_result(off_the_nodes, "5m")) == without_hints(
            unfinished_result(by_its_word, "5m")
        )


def test_what_the_server_refuses_is_told_without_the_pod_that_was_tried() -> None:
    result = result_of(RolloutStatus(snapshot=CASES["refused"]), Awaited())
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
    for seen in (RolloutStatus(snapshot=snapshot), status_at(snapshot, "zone")):
        assert (seen.phase, seen.progress) == (Phase.PROGRESSING, "Progressing 2/2 updated")
        assert result_of(seen, Awaited()) is None
