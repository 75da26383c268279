"""What is held back after refusals, and what is tried again when."""

from __future__ import annotations

from math import inf

import msgspec
import pytest
from msgspec.structs import replace

from controller.planner.actions import CreatePod, DeletePod, ProbeTemplate
from controller.planner.blocker_texts import Blocker
from controller.planner.blockers import NEXT_RETRIES, RETRIES
from controller.planner.explanation import Explainer
from controller.planner.plan import plan
from controller.planner.rollout_state import rollout_state
from controller.planner.world import POD_QUOTA, BackoffKey, FormerPod, Predecessor, World
from tests.beds.worlds import NOW, ago, check, ds, everywhere, pod, revision, served, template, world

UNTIL = NOW + 60


def held(case: World, *places: BackoffKey) -> World:
    """The same while these places are left alone."""
    return World(
        **{name: getattr(case, name) for name in case.__struct_fields__}
        | {"in_backoff": dict.fromkeys(places, UNTIL)}
    )


def kinds(case: World) -> list[str]:
    return [type(action).__name__ for action in plan(case).actions]


def test_a_revision_that_cannot_be_stored_keeps_no_lost_pod_waiting() -> None:
    """The new template waits, for nobody could go back to it; the lost pod does not."""
    lost = world(ds("v2", partition=5), pods=everywhere(4), revisions=[revision("v1")], verdicts={})
    (create,) = plan(lost).actions
    decided = check(held(lost, create.backoff_key), "+node-4 v1")
    assert decided.wake_at == NOW + NEXT_RETRIES, "it may not have got through"


def without_current(case: World) -> World:
    """The same while its current revision cannot be stored."""
    (create,) = plan(case).actions
    return held(case, create.backoff_key)


@pytest.mark.parametrize("partition", [0, 1])
def test_without_a_stored_current_revision_an_older_one_fills_nodes(partition: int) -> None:
    """Also one that may hold the current one, and one that had it: nobody could bring those pods back later."""
    current = rollout_state(world(ds("v2"), revisions=[])).revision.hash
    gone = {"node-3": Predecessor(uid="gone", pod=FormerPod(hash=current))}
    case = world(ds("v2", partition=partition), pods=everywhere(3), revisions=[revision("v1")], predecessors=gone)
    check(without_current(case), "+node-4 v1", "+node-3 v1")
    assert told_of(without_current(case), "node-4") is None


def test_without_any_stored_revision_a_node_waits_for_the_current_one() -> None:
    elsewhere = revision("v1", of=template("v1", nodeSelector={"pool": "other"}))
    case = without_current(world(ds("v2"), nodes=1, revisions=[elsewhere]))
    assert kinds(case) == []
    assert told_of(case, "node-0") is Blocker.UNSTORED


def told_of(case: World, name: str) -> Blocker | None:
    explainer = Explainer(rollout_state(case))
    return next(explainer.blocker(node) for node in explainer.rollout.nodes if node.name == name)


def test_while_its_revision_is_not_stored_no_old_pod_is_replaced() -> None:
    case = world(ds("v2"), pods=everywhere(5), revisions=[revision("v1")])
    (create,) = plan(case).actions
    assert kinds(held(case, create.backoff_key)) == []


def test_a_first_deployment_needs_no_stored_revision() -> None:
    case = world(ds("v1"), nodes=3, revisions=[])
    (create,) = plan(case).actions
    assert kinds(held(case, create.backoff_key)) == ["CreatePod"] * 3


def test_a_pod_that_cannot_be_relabelled_keeps_no_lost_pod_waiting() -> None:
    twin = revision("v0", 1, of=template("v1"))
    pods = [pod("node-0", "v0"), *served("node-1", "node-2", "node-3")]
    case = world(ds("v1"), pods=pods, revisions=[twin, revision("v1", 2)])
    assert kinds(case) == ["RelabelPod"]
    assert kinds(held(case, BackoffKey("object", pods[0].uid))) == ["CreatePod"], (
        "the node without a pod; the twin is still in use"
    )


@pytest.mark.parametrize("number", [1, 2], ids=["renumber", "delete the twin"])
def test_a_revision_that_cannot_be_changed_keeps_nothing_waiting(number: int) -> None:
    if number == 1:
        case = world(ds("v1"), pods=everywhere(4), revisions=[revision("v1", 1), revision("v2", 2)])
    else:
        case = world(
            ds("v1"), pods=everywhere(4), revisions=[revision("v0", 1, of=template("v1")), revision("v1", 2)]
        )
    (action,) = plan(case).actions
    assert not isinstance(action, CreatePod)
    assert kinds(held(case, action.backoff_key)) == ["CreatePod"]


def test_a_dry_run_that_fails_is_not_tried_again_before_its_time() -> None:
    case = world(ds("v2"), pods=everywhere(5), verdicts={})
    (probe,) = plan(case).actions
    assert isinstance(probe, ProbeTemplate)
    decided = plan(held(case, probe.backoff_key))
    assert (decided.actions, decided.wake_at, decided.again) == ((), UNTIL, False)


def test_a_full_quota_stops_no_update() -> None:
    """Five nodes, room for four pods: the doomed create does not end every pass, and the update goes on."""
    case = world(ds("v2", max_unavailable=2), pods=everywhere(4))
    assert kinds(case) == ["CreatePod"]
    check(held(case, POD_QUOTA), "-node-3 v1")


def test_a_full_quota_creates_no_partner_and_lets_served_old_pods_go() -> None:
    beside = pod("node-4", "v2", created=ago(9))
    case = world(ds("v2", max_surge=2), pods=[*everywhere(5), beside])
    assert "DeletePod" in kinds(case)
    assert kinds(held(case, POD_QUOTA)) == ["DeletePod"]
    assert kinds(held(world(ds("v2", max_surge=2), pods=everywhere(5)), POD_QUOTA)) == []


def test_the_new_node_said_to_get_its_first_pod_gets_it() -> None:
    """While something fails, empty nodes are not served by name, and who gets the last room is told in that order."""
    spec = ds("v1", partition=2, partitioned_scaling=True)
    case = world(spec, nodes=4, pods=[*served("node-2"), *served("node-3", rev="v2")], revisions=[revision("v1")])
    failing = held(case, BackoffKey("node", "node-2"))
    check(failing, "+node-1 v1")
    explainer = Explainer(rollout_state(failing))
    waits = {node.name: explainer.blocker(node) for node in explainer.rollout.nodes if not node.pods}
    assert waits == {"node-0": Blocker.SCALING, "node-1": None}


def test_a_node_with_a_deletion_in_doubt_waits_for_the_answer() -> None:
    leaving = pod("node-0", "v1", terminating=True)
    asked = frozenset({BackoffKey("object", leaving.uid)})
    case = world(ds("v2"), nodes=1, pods=[leaving], in_backoff=dict.fromkeys(asked, inf), awaited=asked)
    explainer = Explainer(rollout_state(case))
    assert explainer.blocker(explainer.rollout.nodes[0]) is Blocker.UNANSWERED
    answered = Explainer(rollout_state(replace(case, in_backoff={}, awaited=frozenset())))
    assert answered.blocker(answered.rollout.nodes[0]) is Blocker.TERMINATING


def failed(case: World, *places: BackoffKey) -> World:
    """The same where writes failed at these places and may be tried again: the first one for the longest time."""
    due = {place: ago(100 - number) for number, place in enumerate(places)}
    return msgspec.structs.replace(case, due_again=due)


def made_on(case: World) -> list[str]:
    return [action.node for action in plan(case).actions if isinstance(action, CreatePod)]


def test_a_node_where_a_create_failed_is_tried_after_all_others() -> None:
    case = world(ds("v1"), nodes=4)
    assert made_on(failed(case, BackoffKey("node", "node-0")))[-1] == "node-0"


def test_within_the_burst_the_others_come_first() -> None:
    case = world(ds("v1", burst=2), nodes=4)
    assert set(made_on(failed(case, BackoffKey("node", "node-0"), BackoffKey("node", "node-1")))) == {
        "node-2",
        "node-3",
    }


def test_of_many_failed_nodes_the_longest_due_are_tried_again_first() -> None:
    names = [f"node-{number}" for number in range(2 * RETRIES)]
    case = failed(world(ds("v1"), nodes=names), *(BackoffKey("node", name) for name in reversed(names)))
    decided = plan(case)
    assert made_on(case) == list(reversed(names))[:RETRIES]
    assert decided.more


def test_while_creates_fail_neighbours_do_not_follow_each_other() -> None:
    """Of a hundred nodes that sort first and fail, one that would not is met soon."""
    names = [f"node-{number:03}" for number in range(200)]
    case = failed(world(ds("v1"), nodes=names), BackoffKey("node", "node-000"))
    first = made_on(case)[:20]
    assert any(name >= "node-100" for name in first)
    assert made_on(world(ds("v1"), nodes=names)) == names, "in order while nothing fails"


def test_a_pod_that_could_not_be_deleted_takes_no_budget_from_the_others() -> None:
    pods = everywhere(4)
    case = world(ds("v2"), nodes=4, pods=pods)
    check(case, "-node-3 v1")
    check(failed(case, BackoffKey("object", pods[3].uid)), "-node-2 v1")
    check(failed(case, *(BackoffKey("object", one.uid) for one in pods)), "-node-0 v1")


def test_while_surging_a_node_without_a_second_pod_takes_no_budget() -> None:
    case = world(ds("v2", max_surge=1), nodes=4, pods=everywhere(4))
    check(case, "+node-3 v2")
    check(failed(case, BackoffKey("node", "node-3")), "+node-2 v2")


def test_after_a_refusal_the_dry_run_is_about_another_node() -> None:
    case = world(ds("v2"), nodes=4, pods=everywhere(4), verdicts={})
    asked = set()
    for refusals in range(6):
        (probe,) = plan(msgspec.structs.replace(case, asked=refusals)).actions
        asked.add(getattr(probe, "node", ""))
        assert (getattr(probe, "node", "") == "node-3") is (refusals == 0)
    assert len(asked) > 2
    (probe,) = plan(
        msgspec.structs.replace(world(ds("v2"), nodes=1, pods=[pod("node-0")], verdicts={}), asked=1)
    ).actions
    assert not isinstance(probe, CreatePod | DeletePod), "the only node is asked about again"
