"""To which partition a promotion leads, and what it writes."""

from __future__ import annotations

import pytest

from controller.api.formats import IntOrPercent
from controller.api.objects import JSONObject
from kubectl_plugin.changes.edit import Edit
from kubectl_plugin.changes.partition import Goal, goal_of, promote, steps_for_promotion
from kubectl_plugin.errors import CommandError
from kubectl_plugin.rollout.snapshot import Snapshot
from tests.beds.worlds import served
from tests.unit.kubectl_plugin.changes.documents import NO_PARENTS, ON_DELETE, live, rolling, seen

PODS = (*served("node-3", rev="v2"), *served("node-2", "node-1", "node-0"))
NOTHING = Edit(result="already promoted fully", operations=())


def at(partition: IntOrPercent | None, steps: str | None = "3,2,0") -> Snapshot:
    """Four nodes, of which one is updated."""
    annotations = {"kruise-ds/steps": steps} if steps is not None else None
    strategy = rolling(partition=partition) if partition is not None else rolling()
    return seen(live(strategy, annotations=annotations), pods=PODS)


def goal(snapshot: Snapshot, to: IntOrPercent | None = None) -> Goal | None:
    return goal_of(snapshot, steps_for_promotion(snapshot, 4), 4, to=to)


@pytest.mark.parametrize(
    ("partition", "steps", "to", "result"),
    [
        pytest.param(4, "3,2,0", None, "promoted to step 1 of 3 (partition 4 -> 3)", id="to-the-first"),
        pytest.param(3, "3,2,0", None, "promoted to step 2 of 3 (partition 3 -> 2)", id="to-the-next"),
        pytest.param(2, "3,2,0", None, "promoted to step 3 of 3 (partition 2 -> 0)", id="to-the-last"),
        pytest.param(1, "3,2,0", None, "promoted to step 3 of 3 (partition 1 -> 0)", id="from-between-two"),
        pytest.param("75%", "75%,50%", None, "promoted to step 2 of 3 (partition 75% -> 50%)", id="percentages"),
        pytest.param(3, "3,2,0", 2, "promoted to step 2 of 3 (partition 3 -> 2)", id="a-step-by-its-value"),
        pytest.param(3, "3,60%,50%,0", 2, "promoted to step 3 of 4 (partition 3 -> 2)", id="the-last-of-equal-steps"),
        pytest.param(3, "3,2,0", 1, "promoted (partition 3 -> 1)", id="to-no-step"),
        pytest.param(3, None, "25%", "promoted (partition 3 -> 25%)", id="without-steps"),
        pytest.param(3, "3,2,0", 0, "promoted fully (partition 3 -> 0)", id="fully"),
        pytest.param(3, None, 0, "promoted fully (partition 3 -> 0)", id="fully-without-steps"),
        pytest.param(3, "3,2,0", 3, "already at partition 3 (1 of 4 new)", id="where-it-is"),
        pytest.param(0, "3,2,0", None, "already promoted fully", id="nothing-is-left"),
        pytest.param(0, None, None, "already promoted fully", id="nothing-was-ever-held"),
        pytest.param(None, None, 0, "already promoted fully", id="no-partition"),
        pytest.param("20%", "3,2,0", None, "already promoted fully", id="a-percentage-that-comes-to-none"),
    ],
)
def test_where_it_leads(
    partition: IntOrPercent | None, steps: str | None, to: IntOrPercent | None, result: str
) -> None:
    snapshot = at(partition, steps)
    assert promote(snapshot, goal(snapshot, to)).result == result


def test_it_writes_the_partition_and_tells_it_in_nodes() -> None:
    snapshot = at(3)
    edit = promote(snapshot, goal(snapshot))
    assert edit.operations == ({"op": "add", "path": "/spec/updateStrategy/rollingUpdate/partition", "value": 2},)
    assert edit.details == ("up to 2 of 4 nodes may now run revision 2 (1 more: node-2)",)


@pytest.mark.parametrize("strategy", NO_PARENTS)
def test_nothing_is_written_where_there_is_no_partition(strategy: JSONObject | None) -> None:
    snapshot = seen(live(strategy), pods=PODS)
    assert promote(snapshot, goal(snapshot)) == NOTHING


def test_only_what_was_asked_for_all_nodes_is_full() -> None:
    last, full = goal(at(2)), goal(at(2), 0)
    assert last is not None
    assert full is not None
    assert (last.is_full, full.is_full) == (False, True)


def test_without_steps_it_says_how_to_have_some() -> None:
    with pytest.raises(CommandError) as refused:
        goal(at(3, None))
    assert refused.value.message == "demo has no steps: it has no annotation kruise-ds/steps"
    assert refused.value.hints == (
        "to have steps: kubectl annotate ads demo kruise-ds/steps=90%,50%,0 -n default",
        "or without steps: kubectl kruise-ds promote demo -n default --to 1",
    )
    assert refused.value.exit_code == 6


def test_it_does_not_go_back() -> None:
    with pytest.raises(CommandError) as refused:
        goal(at(2), 3)
    assert refused.value.message == "cannot promote demo to partition 3: partition 2 lets more nodes update"
    assert refused.value.hints == ("to set it all the same: kubectl kruise-ds set-partition demo 3 -n default",)
    assert refused.value.exit_code == 6


def test_on_delete_has_no_steps() -> None:
    with pytest.raises(CommandError, match=r"^cannot promote demo: updateStrategy is OnDelete, "):
        steps_for_promotion(seen(live(ON_DELETE)), 4)
