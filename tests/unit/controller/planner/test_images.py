"""Nodes that wait for an image, and updates in place that do not come to their end."""

from __future__ import annotations

from math import inf

import pytest
from msgspec.structs import replace

from controller.api.containers import PodProblem
from controller.api.in_place import Resize, UpdateInProgress
from controller.api.names import TAINT_UNREACHABLE
from controller.planner.actions import DeletePod, ProbeTemplate
from controller.planner.blocker_texts import Blocker
from controller.planner.explanation import Explainer
from controller.planner.plan import plan
from controller.planner.rollout_state import rollout_state
from controller.planner.world import BeingPulled, Unpullable, World, unpulled
from tests.beds.worlds import (
    DEFERRED,
    REFUSED,
    RESTARTING,
    WANTED,
    ago,
    changing,
    check,
    ds,
    everywhere,
    gated,
    in_place,
    node,
    pod,
    taint,
    world,
)
from tests.unit.controller.planner.written import looked_at, words


def rolling(**lacking: str) -> World:
    """Three nodes with old pods, all at a time; `node_0=""` waits, anything else has failed."""
    names = {name.replace("_", "-"): unpulled(why) for name, why in lacking.items()}
    return world(ds("v2", max_unavailable=3), nodes=3, pods=everywhere(3), unpulled=names)


def taken(of: World) -> list[str]:
    return [action.node for action in plan(of).actions if isinstance(action, DeletePod | ProbeTemplate)]


def test_a_node_waits_for_its_image_and_the_others_go_on() -> None:
    assert taken(rolling(node_1="")) == ["node-2", "node-0"]
    assert taken(rolling(node_2="", node_1="not found")) == ["node-0"]
    assert taken(rolling()) == ["node-2", "node-1", "node-0"]


def test_an_old_pod_that_does_not_serve_waits_only_for_a_failing_pull() -> None:
    pods = (pod("node-0", ready=None), pod("node-1", ready=None), pod("node-2"))
    lacking = {"node-0": BeingPulled(), "node-1": Unpullable(why="not found"), "node-2": BeingPulled()}
    assert taken(world(ds("v2", max_unavailable=3), nodes=3, pods=pods, unpulled=lacking)) == ["node-0"]


def test_a_ready_pod_has_traffic_and_waits_though_not_available_yet() -> None:
    pods = (pod("node-0", ready=ago(1)), pod("node-1", ready=ago(1)))
    young = world(ds("v2", max_unavailable=3, min_ready=60), nodes=2, pods=pods, unpulled={"node-0": BeingPulled()})
    assert taken(young) == ["node-1"]


def test_so_does_one_that_is_not_ready_for_the_sake_of_an_update_alone() -> None:
    """It gets its traffic back while its image is pulled, and is drained anew after that."""
    closed = gated(pod("node-0", "v1"), draining=True, since=ago(60))
    check(changing(in_place(grace=30), pods=[closed], nodes=1, unpulled={"node-0": BeingPulled()}), "open node-0-v1")
    check(changing(in_place(grace=30), pods=[closed], nodes=1), "*node-0 v2")


def test_one_that_is_restarted_serves_soon_unless_it_does_not_start_again() -> None:
    restarted = gated(pod("node-0", "v1", ready=None), in_progress=UpdateInProgress(until=inf, restarting=("main",)))
    stuck = replace(restarted, problem=PodProblem.IMAGE_PULL)
    check(changing(in_place(), pods=[restarted], nodes=1, unpulled={"node-0": BeingPulled()}))
    check(changing(in_place(), pods=[stuck], nodes=1, unpulled={"node-0": BeingPulled()}), "*node-0 v2")


def test_why_it_waits_is_told() -> None:
    rollout = rollout_state(rolling(node_1="", node_0="not found"))
    explainer = Explainer(rollout)
    found = {node.name: explainer.explain(node).blocker for node in rollout.outdated}
    assert found == {"node-2": None, "node-1": Blocker.PULLING, "node-0": Blocker.UNPULLED}


def test_when_all_others_are_done_missing_images_are_the_reason() -> None:
    pods = (pod("node-0"), pod("node-1", "v2"), pod("node-2", "v2"))
    stuck = world(ds("v2"), nodes=3, pods=pods, unpulled={"node-0": Unpullable(why="ErrImagePull: not found")})
    told = "1 of 3 nodes still waits for an available pod of revision v2; "
    why = f"{told}the new image cannot be pulled on node-0: ErrImagePull: not found"
    assert words(looked_at(stuck), "Reconciling") == ("True", "ImagesNotPulled", why)
    assert plan(stuck).actions == ()


@pytest.mark.parametrize(
    ("lacking", "reason", "why"),
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
def test_what_all_the_others_wait_for_is_told(lacking: dict[str, str], reason: str, why: str) -> None:
    pods = (pod("node-0"), pod("node-1"), pod("node-2", "v2"))
    found = {name: unpulled(said) for name, said in lacking.items()}
    slow = looked_at(world(ds("v2"), nodes=3, pods=pods, unpulled=found))
    told = "; ".join(filter(None, ["1 of 3 nodes has a pod of revision v2", why]))
    assert words(slow, "Progressing") == ("True", reason, told)


def test_missing_images_are_named_beside_unreachable_nodes() -> None:
    pods = (pod("node-0"), pod("node-1"), pod("node-2", "v2"))
    nodes = (node("node-0"), node("node-1", taint(TAINT_UNREACHABLE, "NoExecute")), node("node-2"))
    stuck = world(ds("v2"), nodes=nodes, pods=pods, unpulled={"node-0": Unpullable(why="not found")})
    status, reason, told = words(looked_at(stuck), "Progressing")
    assert (status, reason) == ("True", "ImagesNotPulled")
    assert "the new image cannot be pulled on node-0: not found; it is the turn of unreachable nodes: node-1" in told


ALL_AT_ONCE = in_place(max_unavailable=2)


def told(
    in_progress: UpdateInProgress, *, problem: PodProblem | None = None, kind: str = "Progressing", **fields: object
) -> str:
    """Of the last node, beside one that is done: no other one waits for its turn."""
    last = replace(gated(pod("node-0", "v2"), in_progress=in_progress), problem=problem)
    start = changing(ALL_AT_ONCE, pods=[last, gated(pod("node-1", "v2"))], nodes=2, **fields)
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


def test_what_the_server_refuses_is_told_in_its_words() -> None:
    found = told(WANTED, refused_resizes={"uid-node-0-v2": "exceeds the quota"}, kind="Reconciling")
    assert found == "ResizeRefused: the resize of pods is refused on node-0: exceeds the quota"
