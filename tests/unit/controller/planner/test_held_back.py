"""What is held back after refusals, and what is tried again when."""

from __future__ import annotations

from math import inf

import pytest
from msgspec.structs import replace

from controller.planner.actions import CreatePod, DeletePod, ProbeTemplate
from controller.planner.blocker_texts import Blocker
from controller.planner.blockers import NEXT_RETRIES, RETRIES
from controller.planner.explanation import Explainer
from controller.planner.plan import plan
from controller.planner.rollout_state import rollout_state
from controller.planner.world import POD_QUOTA, BackoffKey, FormerPod, Predecessor, World
from tests.beds.worlds import NOW, ago, at, check, everywhere, pod, revision, template

UNTIL = NOW + 60
V1 = [revision("v1")]


def held(case: World, *places: BackoffKey) -> World:
    """The same while these places are left alone."""
    return replace(case, in_backoff=dict.fromkeys(places, UNTIL))


def failed(case: World, *places: BackoffKey) -> World:
    """The same where writes failed at these places and may be tried again: the first one for the longest time."""
    return replace(case, due_again={place: ago(100 - number) for number, place in enumerate(places)})


def without_next(case: World) -> World:
    """The same while the one action that comes next cannot be done, such as storing the current revision."""
    (action,) = plan(case).actions
    return held(case, action.backoff_key)


def node_key(number: int) -> BackoffKey:
    return BackoffKey("node", f"node-{number}")


def object_key(name: str) -> BackoffKey:
    return BackoffKey("object", f"uid-{name}")


TWIN = [revision("v0", 1, of=template("v1")), revision("v1", 2)]
FIVE_OLD = at("v1 v1 v1 v1 v1", max_surge=2)
CASES: dict[str, tuple[World, str]] = {
    "without a stored revision no old pod is replaced": (without_next(at("v1 v1 v1", revisions=V1)), ""),
    "a first deployment needs none": (without_next(at("- -", "v1", revisions=[])), "+node-1 v1, +node-0 v1"),
    "a pod that cannot be relabelled keeps no lost pod waiting, and its twin": (
        held(at("v0 v1 v1 -", "v1", revisions=TWIN), object_key("node-0-v0")),
        "+node-3 v1",
    ),
    "nor does a revision that cannot be renumbered": (
        without_next(at("v1 v1 -", "v1", revisions=[revision("v1", 1), revision("v2", 2)])),
        "+node-2 v1",
    ),
    "nor a twin that cannot be deleted": (without_next(at("v1 v1 -", "v1", revisions=TWIN)), "+node-2 v1"),
    "a full quota stops no update, though a node lacks its pod": (
        held(at("v1 v1 v1 -", max_unavailable=2), POD_QUOTA),
        "-node-2 v1",
    ),
    "it creates no partner": (held(FIVE_OLD, POD_QUOTA), ""),
    "and lets served old pods go": (
        held(replace(FIVE_OLD, pods=(*everywhere(5), pod("node-4", "v2", created=ago(9)))), POD_QUOTA),
        "-node-4 v1",
    ),
    "a pod that could not be deleted takes no budget from the others": (
        failed(at("v1 v1 v1 v1"), object_key("node-3-v1")),
        "-node-2 v1",
    ),
    "of several the one that is due for the longest time": (
        failed(at("v1 v1 v1 v1"), *(object_key(f"node-{number}-v1") for number in range(4))),
        "-node-0 v1",
    ),
    "while surging a node without a second pod takes no budget": (
        failed(at("v1 v1 v1 v1", max_surge=1), node_key(3)),
        "+node-2 v2",
    ),
    "a node where a create failed is tried after all others": (
        failed(at("- - -", "v1"), node_key(0)),
        "+node-1 v1, +node-2 v1, +node-0 v1",
    ),
    "within the burst the others come first": (
        failed(at("- - - -", "v1", burst=2), node_key(0), node_key(1)),
        "+node-2 v1, +node-3 v1",
    ),
}


@pytest.mark.parametrize(("of", "expected"), CASES.values(), ids=CASES)
def test_what_is_held_back_and_what_is_not(of: World, expected: str) -> None:
    check(of, expected)


def blocker_of(case: World, name: str) -> Blocker | None:
    explainer = Explainer(rollout_state(case))
    return next(explainer.blocker(node) for node in explainer.rollout.nodes if node.name == name)


def test_a_revision_that_cannot_be_stored_keeps_no_lost_pod_waiting() -> None:
    """The new template waits, for there would be no way back to it; the lost pod does not."""
    decided = check(without_next(at("v1 v1 v1 v1 -", partition=5, revisions=V1, verdicts={})), "+node-4 v1")
    assert decided.wake_at == NOW + NEXT_RETRIES, "it may not have got through"


@pytest.mark.parametrize("partition", [0, 1])
def test_without_a_stored_current_revision_an_older_one_fills_nodes(partition: int) -> None:
    """Also one that may hold the current one, and one that had it: those pods could not be brought back later."""
    current = rollout_state(at("-", revisions=[])).revision.hash
    gone = {"node-3": Predecessor(uid="gone", pod=FormerPod(hash=current))}
    case = without_next(at("v1 v1 v1 - -", partition=partition, revisions=V1, predecessors=gone))
    check(case, "+node-4 v1, +node-3 v1")
    assert blocker_of(case, "node-4") is None


def test_without_any_stored_revision_a_node_waits_for_the_current_one() -> None:
    elsewhere = revision("v1", of=template("v1", nodeSelector={"pool": "other"}))
    case = without_next(at("-", revisions=[elsewhere]))
    check(case)
    assert blocker_of(case, "node-0") is Blocker.UNSTORED


def test_a_dry_run_that_fails_is_not_tried_again_before_its_time() -> None:
    case = at("v1 v1", verdicts={})
    assert isinstance(plan(case).actions[0], ProbeTemplate)
    decided = plan(without_next(case))
    assert (decided.actions, decided.wake_at, decided.again) == ((), UNTIL, False)


def test_the_new_node_said_to_get_its_first_pod_gets_it() -> None:
    """While something fails, empty nodes are not served by name, and the last room is given in that order."""
    case = at("- - v1 v2", "v1", partition=2, partitioned_scaling=True, revisions=V1)
    failing = held(case, node_key(2))
    check(failing, "+node-1 v1")
    assert (blocker_of(failing, "node-0"), blocker_of(failing, "node-1")) == (Blocker.SCALING, None)


def test_a_node_with_a_deletion_in_doubt_waits_for_the_answer() -> None:
    asked = frozenset({object_key("node-0-v1")})
    case = at("v1†", in_backoff=dict.fromkeys(asked, inf), in_flight=asked)
    assert blocker_of(case, "node-0") is Blocker.UNANSWERED
    assert blocker_of(at("v1†"), "node-0") is Blocker.TERMINATING


def made_on(case: World) -> list[str]:
    return [action.node for action in plan(case).actions if isinstance(action, CreatePod)]


def test_of_many_failed_nodes_the_longest_due_are_tried_again_first() -> None:
    names = [f"node-{number}" for number in range(2 * RETRIES)]
    case = failed(at("", "v1", nodes=names), *(BackoffKey("node", name) for name in reversed(names)))
    assert made_on(case) == list(reversed(names))[:RETRIES]
    assert plan(case).more


def test_while_creates_fail_neighbours_do_not_follow_each_other() -> None:
    """Of a hundred nodes that sort first and fail, one that would not is met soon."""
    names = [f"node-{number:03}" for number in range(200)]
    case = at("", "v1", nodes=names)
    assert any(name >= "node-100" for name in made_on(failed(case, BackoffKey("node", "node-000")))[:20])
    assert made_on(case) == names, "in order while nothing fails"


def test_after_a_refusal_the_dry_run_is_about_another_node() -> None:
    case = at("v1 v1 v1 v1", verdicts={})
    asked = [getattr(plan(replace(case, failed_dry_runs=refusals)).actions[0], "node", "") for refusals in range(6)]
    assert [name == "node-3" for name in asked] == [True, False, False, False, False, False]
    assert len(set(asked)) > 2
    (probe,) = plan(at("v1", verdicts={}, failed_dry_runs=1)).actions
    assert not isinstance(probe, CreatePod | DeletePod), "the only node is asked about again"
