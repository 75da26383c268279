"""What follows from an error for the action that got it: no server is asked."""

from __future__ import annotations

import pytest

from controller.daemonset.after_error import CountsAsFailure, Left, counts_after, left_after
from controller.kube.meaning import ForWrite
from controller.planner.actions import Action, CreatePod, CreateRevision, DeletePod, DeleteReason, ProbeTemplate
from tests.beds.worlds import pod, revision

CREATE = CreatePod(node="node-0", name="demo-0", revision=revision("v1"))
DELETE = DeletePod(pod=pod("node-0").ref, node="node-0", why=DeleteReason.OUTDATED)
PROBE = ProbeTemplate(node="node-0", name="demo-dry", revision=revision("v1"))
REVISION = CreateRevision(name="demo-v1", hash="v1", number=1)
ACTIONS = {"create": CREATE, "delete": DELETE, "probe": PROBE, "revision": REVISION}

NO, YES, UNLESS = CountsAsFailure.NO, CountsAsFailure.YES, CountsAsFailure.UNLESS_DONE
COUNTS = {
    # what it means: for a create, a deletion, a dry run, a revision
    ForWrite.ABSENT: (NO, NO, NO, NO),
    ForWrite.EXISTS: (NO, NO, NO, NO),
    ForWrite.OVERTAKEN: (NO, NO, NO, NO),
    ForWrite.REFUSED: (UNLESS, UNLESS, YES, YES),
    ForWrite.DENIED: (UNLESS, UNLESS, YES, YES),
    ForWrite.ENDING: (YES, YES, YES, YES),
    ForWrite.NO_ROOM: (YES, UNLESS, YES, YES),
    ForWrite.FAILED: (UNLESS, UNLESS, YES, YES),
    ForWrite.NOT_NOW: (NO, NO, NO, NO),
    ForWrite.UNKNOWN: (NO, NO, NO, NO),
}
NOTHING, AGAIN, TOLD, DOUBT = Left.NOTHING, Left.AGAIN, Left.TOLD, Left.IN_DOUBT
LEFT = {
    ForWrite.ABSENT: (TOLD, Left.IF_THERE, AGAIN, AGAIN),
    ForWrite.EXISTS: (AGAIN, AGAIN, NOTHING, AGAIN),
    ForWrite.OVERTAKEN: (AGAIN, AGAIN, AGAIN, AGAIN),
    ForWrite.REFUSED: (TOLD, TOLD, NOTHING, AGAIN),
    ForWrite.DENIED: (TOLD, TOLD, NOTHING, AGAIN),
    ForWrite.ENDING: (NOTHING, NOTHING, NOTHING, NOTHING),
    ForWrite.NO_ROOM: (TOLD, TOLD, NOTHING, AGAIN),
    ForWrite.FAILED: (TOLD, TOLD, AGAIN, AGAIN),
    ForWrite.NOT_NOW: (TOLD, TOLD, AGAIN, AGAIN),
    ForWrite.UNKNOWN: (DOUBT, DOUBT, AGAIN, AGAIN),
}
CASES = [
    pytest.param(action, means, index, id=f"{name}-{means.name}")
    for means in ForWrite
    for index, (name, action) in enumerate(ACTIONS.items())
]


@pytest.mark.parametrize(("action", "means", "index"), CASES)
def test_what_counts_as_a_failure_of_the_place(action: Action, means: ForWrite, index: int) -> None:
    assert counts_after(action, means, suspect=False) is COUNTS[means][index]


@pytest.mark.parametrize(("action", "means", "index"), CASES)
def test_at_a_suspect_place_every_error_counts(action: Action, means: ForWrite, index: int) -> None:
    known = COUNTS[means][index]
    expected = COUNTS[ForWrite.FAILED][index] if known is NO else known
    assert counts_after(action, means, suspect=True) is expected


@pytest.mark.parametrize(("action", "means", "index"), CASES)
def test_what_is_left_to_do(action: Action, means: ForWrite, index: int) -> None:
    assert left_after(action, means, over=False) is LEFT[means][index]
    assert left_after(action, means, over=True) is AGAIN, "there is nothing to ask, and nobody to tell"
