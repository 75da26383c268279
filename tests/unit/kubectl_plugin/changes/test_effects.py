"""What a change comes to, in words: who moves in which order, who does not, and why."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from controller.api.objects import JSONObject
from kubectl_plugin.changes.edit import course_words, number_of, rollout_after
from kubectl_plugin.rollout.snapshot import Snapshot, Unread
from tests.beds.worlds import node, pod, revision, served, taint
from tests.unit.kubectl_plugin.changes.documents import live, rolling, seen

OLD = served("node-3", "node-2", "node-1", "node-0")


@pytest.mark.parametrize(("current", "older", "number"), [("v3", ("v2",), 3), ("v1", ("v3", "v2"), 4), ("v1", (), 1)])
def test_the_current_template_always_gets_the_highest_number(current: str, older: Sequence[str], number: int) -> None:
    assert number_of(revision(current), [revision(one) for one in older]) == number


def told(snapshot: Snapshot) -> tuple[str, ...]:
    rollout = rollout_after(snapshot)
    assert rollout is not None
    return course_words(snapshot, rollout)


@pytest.mark.parametrize(
    ("strategy", "lines"),
    [
        (rolling(maxUnavailable=1), ("4 of 4 nodes get revision 2: node-3 … node-0, 1 at a time",)),
        (rolling(maxUnavailable=4), ("4 of 4 nodes get revision 2: node-3 … node-0",)),
        (rolling(maxSurge=2), ("4 of 4 nodes get revision 2: node-3 … node-0, 2 at a time",)),
        (
            rolling(maxUnavailable=1, partition="50%"),
            (
                "2 of 4 nodes get revision 2: node-3, node-2, 1 at a time",
                "partition 50% keeps 2 nodes (node-1, node-0) old",
            ),
        ),
        (
            rolling(maxUnavailable=1, selector={"matchLabels": {"track": "canary"}}),
            (
                "no node gets revision 2 now; 0 of 4 have it",
                "rollingUpdate.selector leaves out 4 nodes (node-3 … node-0)",
            ),
        ),
        (
            rolling(rollingUpdateType="InPlaceIfPossible", maxUnavailable=4),
            (
                "4 of 4 nodes get revision 2: node-3 … node-0",
                "re-create: they were made without the readiness gate InPlaceUpdateReady",
            ),
        ),
    ],
    ids=["budget", "all", "surge", "partition", "selector", "in place"],
)
def test_the_settings_in_words(strategy: JSONObject, lines: tuple[str, ...]) -> None:
    assert told(seen(live(strategy), pods=OLD)) == lines


def test_nodes_that_use_up_the_budget_are_named() -> None:
    pods = (pod("node-3", "v2", ready=None), *OLD[1:])
    assert told(seen(live(rolling(maxUnavailable=1)), pods=pods))[0] == (
        "3 of 4 nodes get revision 2: node-2, node-1, node-0 when node-3 is available"
    )


def test_an_old_pod_that_serves_nobody_goes_at_once() -> None:
    pods = (*OLD[:3], pod("node-0", ready=None))
    assert told(seen(live(rolling(maxUnavailable=2)), pods=pods))[0] == (
        "4 of 4 nodes get revision 2: node-0 at once (no available pod), then node-3, node-2, node-1, 2 at a time"
    )


def test_nodes_that_are_out_of_reach_wait() -> None:
    snapshot = seen(live(rolling(maxUnavailable=2)), pods=OLD)
    silent = node("node-3", taint("node.kubernetes.io/unreachable", "NoExecute"))
    assert snapshot.nodes is not None
    there = msgspec.structs.replace(snapshot, nodes=(*snapshot.nodes[:3], silent))
    assert "not before it can be reached: 1 node (node-3)" in told(there)


def test_there_is_no_board_without_the_pods() -> None:
    assert rollout_after(seen(unread=(Unread(what="nodes"), Unread(what="pods")))) is None


def test_without_the_nodes_those_that_have_a_pod_stand_for_them() -> None:
    rollout = rollout_after(seen(nodes=None, pods=OLD))
    assert rollout is not None
    assert rollout.budget.desired == 4


@pytest.mark.parametrize(
    "document",
    [
        live(rolling(selector={"matchLabels": {"track": "canary"}})),
        live(nodeSelector={"track": "canary"}),
        live(affinity={"nodeAffinity": {}}),
    ],
    ids=["selector", "nodeSelector", "affinity"],
)
def test_nothing_stands_for_nodes_that_are_chosen_by_what_they_are_like(document: JSONObject) -> None:
    assert rollout_after(seen(document, pods=OLD)) is not None
    assert rollout_after(seen(document, nodes=None, pods=OLD)) is None


@pytest.mark.parametrize("strategy", [rolling(maxUnavailable="many"), rolling(selector={"matchLabels": 3})])
def test_there_is_no_board_of_a_spec_that_makes_no_sense(strategy: JSONObject) -> None:
    valid = seen(live())
    broken = msgspec.structs.replace(valid, document=live(strategy))
    assert rollout_after(broken) is None
