"""What is told of pods that were updated in place and do not become what the revision asks for."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.api.in_place import Resize, Underway
from controller.api.pod_problem import PodProblem
from controller.planner.plan import plan
from tests.beds.in_place_worlds import DEFERRED, REFUSED, RESTARTING, WANTED, changing, gated, in_place
from tests.beds.worlds import pod

ALL_AT_ONCE = in_place(max_unavailable=2)


def told(
    underway: Underway, *, problem: PodProblem | None = None, kind: str = "Progressing", **fields: object
) -> str:
    """Of the last node, beside one that is done: no other one waits for its turn."""
    last = replace(gated(pod("node-0", "v2"), underway=underway), problem=problem)
    start = changing(ALL_AT_ONCE, pods=[last, gated(pod("node-1", "v2"))], nodes=2, **fields)
    decided = plan(start).status
    assert decided is not None
    [found] = [one for one in decided.conditions if one.type == kind]
    return f"{found.reason}: {found.message.partition('; ')[2]}"


NO_ROOM = replace(DEFERRED, problem="the node lacks cpu")


@pytest.mark.parametrize(
    ("underway", "problem", "words"),
    [
        (REFUSED, None, "ResizeRefused: the resize of pods is refused on node-0: no room"),
        (NO_ROOM, None, "ResizeDeferred: the resize of pods is deferred on node-0: the node lacks cpu"),
        (DEFERRED, None, f"ResizeDeferred: the resize of pods is deferred on node-0: {Resize.DEFERRED}"),
        (
            RESTARTING,
            PodProblem.CRASH_LOOP,
            "FailedUpdatePodInPlace: containers do not start again on node-0: CrashLoopBackOff",
        ),
        (RESTARTING, None, "Updating: "),
    ],
)
def test_the_last_nodes_are_named_too(underway: Underway, problem: PodProblem | None, words: str) -> None:
    assert told(underway, problem=problem) == words


def test_what_the_server_refuses_is_told_in_its_words() -> None:
    found = told(WANTED, refused_resizes={"uid-node-0-v2": "exceeds the quota"}, kind="Reconciling")
    assert found == "ResizeRefused: the resize of pods is refused on node-0: exceeds the quota"
