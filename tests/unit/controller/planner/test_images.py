"""Nodes that wait for an image, and updates in place that do not come to their end."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.containers import PodProblem
from controller.api.in_place import Resize, UpdateInProgress
from controller.api.names import TAINT_UNREACHABLE
from controller.planner.blocker_texts import Blocker
from controller.planner.explanation import Explainer
from controller.planner.plan import plan
from controller.planner.rollout_state import rollout_state
from controller.planner.world import World, unpulled
from tests.beds.worlds import (
    DEFERRED,
    REFUSED,
    RESTARTING,
    WANTED,
    ago,
    at,
    changing,
    check,
    everywhere,
    gated,
    node,
    pod,
    taint,
)
from tests.unit.controller.planner.written import looked_at, words


def lacking(**nodes: str) -> dict[str, Any]:
    """`node_0=""` waits, anything else has failed."""
    return {name.replace("_", "-"): unpulled(why) for name, why in nodes.items()}


CLOSED = gated(pod("node-0", "v1"), draining=True, since=ago(60))
RESTARTED = gated(pod("node-0", ready=None), in_progress=UpdateInProgress(until=inf, restarting=("main",)))
STUCK = replace(RESTARTED, problem=PodProblem.IMAGE_PULL)
YOUNG = everywhere(2, ready=ago(1))
PULLED = lacking(node_0="")
CASES: dict[str, tuple[World, str]] = {
    "a node waits for its image and the others go on": (
        at("v1 v1 v1", max_unavailable=3, unpulled=lacking(node_1="")),
        "-node-2 v1, -node-0 v1",
    ),
    "also where it cannot be had": (
        at("v1 v1 v1", max_unavailable=3, unpulled=lacking(node_2="", node_1="not found")),
        "-node-0 v1",
    ),
    "an old pod that does not serve waits only for a failing pull": (
        at("v1! v1! v1", max_unavailable=3, unpulled=lacking(node_0="", node_1="not found", node_2="")),
        "-node-0 v1",
    ),
    "a ready pod has traffic and waits though not available yet": (
        at("v1 v1", max_unavailable=3, min_ready=60, pods=YOUNG, unpulled=PULLED),
        "-node-1 v1",
    ),
    "one that is not ready for the sake of an update alone gets its traffic back": (
        changing(pods=[CLOSED], grace=30, unpulled=PULLED),
        "open node-0-v1",
    ),
    "until the image is there": (changing(pods=[CLOSED], grace=30), "*node-0 v2"),
    "one that is restarted serves soon": (changing(pods=[RESTARTED], unpulled=PULLED), ""),
    "unless it does not start again": (changing(pods=[STUCK], unpulled=PULLED), "*node-0 v2"),
}


@pytest.mark.parametrize(("of", "expected"), CASES.values(), ids=CASES)
def test_who_waits_for_an_image(of: World, expected: str) -> None:
    check(of, expected)


def test_why_it_waits_is_reported() -> None:
    rollout = rollout_state(at("v1 v1 v1", max_unavailable=3, unpulled=lacking(node_1="", node_0="not found")))
    explainer = Explainer(rollout)
    found = {node.name: explainer.explain(node).blocker for node in rollout.outdated}
    assert found == {"node-2": None, "node-1": Blocker.PULLING, "node-0": Blocker.UNPULLED}


def test_when_all_others_are_done_missing_images_are_the_reason() -> None:
    stuck = at("v1 v2 v2", unpulled=lacking(node_0="ErrImagePull: not found"))
    told = "1 of 3 nodes still waits for an available pod of revision v2; "
    why = f"{told}the new image cannot be pulled on node-0: ErrImagePull: not found"
    assert words(looked_at(stuck), "Reconciling") == ("True", "ImagesNotPulled", why)
    assert plan(stuck).actions == ()


@pytest.mark.parametrize(
    ("nodes", "reason", "why"),
    [
        ({"node-0": "", "node-1": ""}, "PullingImages", "the new image is being pulled on node-1, node-0"),
        (
            {"node-0": "", "node-1": "not found"},
            "ImagesNotPulled",
            "the new image cannot be pulled on node-1: not found; the new image is being pulled on node-0",
        ),
        ({"node-0": "not found"}, "Updating", ""),
    ],
    ids=["all are pulled", "one cannot be", "another one goes on"],
)
def test_what_all_the_others_wait_for_is_reported(nodes: dict[str, str], reason: str, why: str) -> None:
    slow = looked_at(at("v1 v1 v2", unpulled=lacking(**nodes)))
    told = "; ".join(filter(None, ["1 of 3 nodes has a pod of revision v2", why]))
    assert words(slow, "Progressing") == ("True", reason, told)


def test_missing_images_are_named_beside_unreachable_nodes() -> None:
    nodes = (node("node-0"), node("node-1", taint(TAINT_UNREACHABLE, "NoExecute")), node("node-2"))
    stuck = at("v1 v1 v2", nodes=nodes, unpulled=lacking(node_0="not found"))
    status, reason, told = words(looked_at(stuck), "Progressing")
    assert (status, reason) == ("True", "ImagesNotPulled")
    assert "the new image cannot be pulled on node-0: not found; it is the turn of unreachable nodes: node-1" in told


def told(
    in_progress: UpdateInProgress, *, problem: PodProblem | None = None, kind: str = "Progressing", **fields: Any
) -> str:
    """Of the last node, beside one that is done: no other one waits for its turn."""
    last = replace(gated(pod("node-0", "v2"), in_progress=in_progress), problem=problem)
    start = changing(pods=[last, gated(pod("node-1", "v2"))], max_unavailable=2, **fields)
    decided = plan(start).status
    assert decided is not None
    [found] = [one for one in decided.conditions if one.type == kind]
    return f"{found.reason}: {found.message.partition('; ')[2]}"


NO_ROOM = replace(DEFERRED, problem="the node lacks cpu")


@pytest.mark.parametrize(
    ("in_progress", "problem", "words"),
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
def test_the_last_nodes_are_named_too(in_progress: UpdateInProgress, problem: PodProblem | None, words: str) -> None:
    assert told(in_progress, problem=problem) == words


def test_what_the_server_refuses_is_reported_in_its_words() -> None:
    found = told(WANTED, refused_resizes={"uid-node-0-v2": "exceeds the quota"}, kind="Reconciling")
    assert found == "ResizeRefused: the resize of pods is refused on node-0: exceeds the quota"
