"""Each node in one word: the state, the reason, which nodes are shown in which order, and that the numbers add up."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSetStatus, LifecycleHook, OrderRule, Phase
from controller.api.names import LIFECYCLE_STATE_LABEL, PREPARING_DELETE, TAINT_UNREACHABLE
from controller.api.objects import JSON, JSONObject, Key
from controller.planner.explanation import NodeState
from kubectl_plugin.commands.nodes import choice_of, chosen_rows
from kubectl_plugin.errors import CommandError
from kubectl_plugin.rollout.history import daemonset_among
from kubectl_plugin.rollout.nodes import Preparing
from kubectl_plugin.rollout.snapshot import PodDetail, Snapshot, Unread
from kubectl_plugin.rollout.survey import NodeSurvey, is_unusable, survey
from tests.beds.snapshots import container, crashing, detail, observed, of_world, snapshot
from tests.beds.worlds import ago, ds, everywhere, failed, node, pod, prepared, served, taint, world


def canary(**changes: Any) -> Snapshot:
    """Five nodes on the way from v1 to v2 with partition 2: node-4 and node-3 have it, node-2 is next."""
    pods = (*served("node-0", "node-1", "node-2"), *served("node-3", "node-4", rev="v2"))
    return snapshot(ds("v2", partition=2, **changes), pods=pods)


YOUNG = pod("node-0", "v2", ready=None, created=ago(9))
HOOK = LifecycleHook(labels_handler={"hook": "yes"})
HELD = "held until label hook=yes is removed"
HOOKED = {"hook": "yes"}
PREPARED = {**HOOKED, LIFECYCLE_STATE_LABEL: PREPARING_DELETE}
SILENT = (node("node-0"), node("node-1", taint(TAINT_UNREACHABLE, "NoExecute")))
SSD = {"disk": "ssd"}
LEFT_OUT = snapshot(
    ds("v1", nodeSelector=SSD),
    nodes=(node("node-0", labels=SSD), node("node-1"), node("node-2", taint("gpu", value="yes"), labels=SSD)),
    pods=served("node-0", "node-2"),
)


def with_pod(new: PodDetail) -> Snapshot:
    """node-0 has that one, and node-1 an old one."""
    return snapshot(ds("v2"), pods=(new.pod, pod("node-1")), details={"node-0": new}, nodes=2)


ONE_NODE: list[tuple[Snapshot, str]] = [
    (canary(paused=True), "node-2 next: paused"),
    (canary(selector={"track": "canary"}), "node-2 old: rollingUpdate.selector leaves it out"),
    (
        snapshot(ds("v2", on_delete=True), pods=everywhere(2), nodes=2),
        "node-0 next: OnDelete: when its pod is deleted",
    ),
    (with_pod(detail(YOUNG, container(ready=False, waiting="ErrImagePull"))), "node-0 failing: ErrImagePull"),
    (with_pod(detail(failed("node-0", "v2"), reason="Evicted")), "node-0 failing: Evicted"),
    (
        with_pod(detail(YOUNG, container(ready=False, waiting="ContainerCreating"))),
        "node-0 updating: main ContainerCreating, 9s",
    ),
    (with_pod(detail(pod("node-0", "v1", terminating=True))), "node-0 updating: old pod is terminating"),
    (
        with_pod(detail(pod("node-0", "v1", ready=None), crashing())),
        "node-0 next: at once: its old pod is not available; CrashLoopBackOff, exit 1",
    ),
    (
        snapshot(ds("v2", min_ready=30), pods=served("node-0", rev="v2", ready=ago(9)), nodes=1),
        "node-0 updating: ready for 9s of 30s",
    ),
    (
        snapshot(ds("v2", max_surge=1), pods=(pod("node-0", "v1"), pod("node-0", "v2")), nodes=1),
        "node-0 updating: its old pod goes now",
    ),
    (
        snapshot(ds("v2", partition=4), pods=(*everywhere(3), *served("node-3", "node-4", rev="v2"))),
        "node-3 unplanned: newer than the partition allows",
    ),
    (snapshot(ds("v2"), pods=everywhere(2), nodes=SILENT), "node-1 next: the node is unreachable"),
    (snapshot(ds("v2", hook=HOOK), pods=(pod("node-0", labels=PREPARED),), nodes=1), f"node-0 next: {HELD}"),
    (  # whose successor stands beside it
        snapshot(ds("v2", hook=HOOK, max_surge=1), pods=(pod("node-0", labels=HOOKED),), nodes=1),
        "node-0 next: waits for budget",
    ),
    (
        snapshot(
            ds("v2", hook=HOOK, max_surge=1), pods=(pod("node-0", labels=PREPARED), pod("node-0", "v2")), nodes=1
        ),
        f"node-0 updating: node-0-v1 {HELD}",
    ),
    (LEFT_OUT, "node-1 excluded: node selector"),
    (LEFT_OUT, "node-2 excluded: taint gpu=yes:NoSchedule; its pod may stay"),
    (snapshot(ds("v1"), nodes=2, pods=everywhere(1)), "node-1 missing: no pod yet"),
]


@pytest.mark.parametrize(("seen", "told"), ONE_NODE, ids=[told for _, told in ONE_NODE])
def test_each_node_in_a_word_and_why(seen: Snapshot, told: str) -> None:
    assert told in [f"{one.node} {one.state.value}: {one.why}" for one in survey(seen).rows]


def test_with_on_delete_the_phase_is_manual() -> None:
    assert survey(snapshot(ds("v2", on_delete=True), pods=everywhere(2), nodes=2)).phase is Phase.MANUAL


def test_an_unplanned_node_is_counted_as_updated() -> None:
    pods = (*everywhere(3), *served("node-3", "node-4", rev="v2"))
    counts = survey(snapshot(ds("v2", partition=4), pods=pods)).counts
    assert (counts.updated, counts.unplanned) == (2, 1)


def test_only_preparing_shows_nodes_with_held_pods_whatever_they_are() -> None:
    excluded = node("node-1", taint("gpu", "NoExecute"))
    pods = [prepared(pod(f"node-{number}", labels=HOOKED)) for number in range(2)]
    nodes = ("node-0", excluded, "node-2")
    surveyed = survey(snapshot(ds("v2", hook=HOOK), pods=(*pods, pod("node-2")), nodes=nodes))
    shown = chosen_rows(surveyed, choice_of("preparing", excluded=False, group=None, sort="name"))
    assert [one.node for one in shown] == ["node-0", "node-1"]
    held = "held for 60s until label hook=yes is removed"
    assert shown[1].why == f"taint gpu:NoExecute; its pod must go; {held}"
    assert not any(one.preparing for one in surveyed.rows if one.node == "node-2")


def test_nodes_that_are_left_out_are_not_desired() -> None:
    assert survey(LEFT_OUT).counts.desired == 1


def test_the_numbers_add_up_to_all_nodes() -> None:
    pods = (*served("node-0", "node-1"), *served("node-3", rev="v2"), pod("node-4", "v2", ready=None))
    counts = survey(snapshot(ds("v2", partition=2), pods=pods)).counts
    parts = (counts.updated, counts.updating, counts.failing, counts.next, counts.old, counts.missing)
    assert parts == (1, 1, 0, 0, 2, 1)
    assert sum(parts) == counts.desired == 5


def test_without_the_right_to_list_nodes_those_with_pods_stand_for_all() -> None:
    surveyed = survey(
        of_world(world(observed(ds("v1", nodeSelector={"disk": "ssd"})), pods=everywhere(3)), nodes_readable=False)
    )
    assert [one.state for one in surveyed.rows] == [NodeState.UPDATED] * 3


def condition(reason: str, *, kind: str = "Degraded", generation: int = 1) -> dict[str, Any]:
    return {"type": kind, "status": "True", "reason": reason, "message": "no", "observedGeneration": generation}


def test_a_refused_template_is_believed_although_only_the_controller_asked() -> None:
    daemonset = observed(ds("v2"), conditions=(condition("TemplateRefused"),))
    surveyed = survey(of_world(world(daemonset, pods=everywhere(2), nodes=2)))
    assert (surveyed.phase, surveyed.standing.refused) == (Phase.STALLED, "no")
    edited = replace(daemonset, generation=2)
    assert survey(of_world(world(edited, pods=everywhere(2), nodes=2))).phase is Phase.PENDING


@pytest.mark.parametrize(("reason", "phase"), [("TemplateRefused", Phase.HELD), ("InvalidSpec", Phase.STALLED)])
def test_a_refused_template_stops_nothing_that_does_not_wait_for_it(reason: str, phase: Phase) -> None:
    kept = observed(ds("v2", partition=2), conditions=(condition(reason),))
    assert survey(of_world(world(kept, pods=everywhere(2), nodes=2))).phase is phase


@pytest.mark.parametrize(("kind", "generation"), [("TheirOwn", 1), ("Degraded", 0)])
def test_only_what_the_controller_says_of_this_very_spec_makes_it_unusable(kind: str, generation: int) -> None:
    other = condition("InvalidSpec", kind=kind, generation=generation)
    conditions = (condition("TemplateRefused"), other) if kind != "Degraded" else (other,)
    assert not is_unusable(observed(ds("v2"), conditions=conditions))


def blinded(partition: int) -> tuple[Snapshot, Snapshot]:
    """Three old pods and two new ones, whose hashes are another controller's: with the revisions and without."""
    pods = (*served("node-0", "node-1", "node-2"), *served("node-3", "node-4", rev="v2"))
    seen = DaemonSetStatus(observed_generation=1, update_revision="v2")
    whole = of_world(world(replace(ds("v2", partition=partition), status=seen), pods=pods))
    blind = replace(whole, revisions=(), unread=(Unread(what="controllerrevisions"),))
    return whole, blind


@pytest.mark.parametrize(("partition", "phase"), [(3, Phase.HELD), (2, Phase.PROGRESSING)])
def test_nodes_stand_as_they_do_with_the_revisions(partition: int, phase: Phase) -> None:
    whole, blind = (survey(one) for one in blinded(partition))
    assert [(one.node, one.state, one.why) for one in blind.rows] == [
        (one.node, one.state, one.why) for one in whole.rows
    ]
    assert blind.phase is whole.phase is phase
    assert blind.rollout.revision.hash == "v2"


def test_no_number_is_made_up() -> None:
    whole, blind = (survey(one) for one in blinded(3))
    assert (whole.current, whole.previous_number) == (2, 1)
    assert (blind.current, blind.previous_number) == (None, None)
    assert {one.revision for one in blind.rows} == {None}


def test_a_hash_of_an_earlier_spec_is_not_taken_for_this_ones() -> None:
    _, blind = blinded(3)
    edited = replace(blind, daemonset=replace(blind.daemonset, generation=2))
    surveyed = survey(edited)
    assert surveyed.phase is Phase.PENDING
    assert surveyed.rollout.revision.hash != "v2"


KEY = Key("obs", "agent")
TEMPLATE: JSONObject = {"spec": {"containers": []}}


def manifest(
    api: str = "apps.kruise.io/v1beta1", name: str = "agent", *, kind: str = "DaemonSet", **meta: JSON
) -> JSONObject:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, **meta}, "spec": {"template": TEMPLATE}}


OTHERS: tuple[JSONObject, ...] = (
    manifest(name="other"),
    manifest(namespace="prod"),
    manifest("apps/v1", kind="Deployment"),
    manifest("example.com/v1"),
    {"kind": "ConfigMap"},
    {},
)


@pytest.mark.parametrize(
    "wanted", [manifest(), manifest("apps.kruise.io/v1alpha1"), manifest("apps/v1"), manifest(namespace="obs")]
)
def test_found_among_others(wanted: JSONObject) -> None:
    assert daemonset_among([*OTHERS, wanted], KEY, "x.yaml") is wanted


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        ([], 'x.yaml has no DaemonSet "agent" for namespace "obs"; it has: nothing'),
        (
            OTHERS,
            'x.yaml has no DaemonSet "agent" for namespace "obs"; it has: DaemonSet other, DaemonSet prod/agent,'
            " Deployment agent, DaemonSet agent, ConfigMap, something without a kind",
        ),
        ([manifest(), manifest("apps/v1")], 'x.yaml has DaemonSet "agent" for namespace "obs" 2 times'),
        ([{**manifest(), "spec": None}], 'DaemonSet "agent" for namespace "obs" in x.yaml has no spec.template'),
    ],
)
def test_not_found(objects: tuple[JSONObject, ...], words: str) -> None:
    with pytest.raises(CommandError) as raised:
        daemonset_among(objects, KEY, "x.yaml")
    assert (raised.value.message, raised.value.exit_code) == (words, 1)


PODS = (
    pod("node-0", created=ago(50)),
    pod("node-1", created=ago(400)),
    pod("node-3", "v2", created=ago(90)),
    pod("node-4", "v2", created=ago(200), ready=None),
)
RESTARTS = {"node-0": 5, "node-1": 2, "node-3": 7, "node-4": 0}
ORDERS = {
    "update": "node-4 node-3 node-2 node-1 node-0",
    "name": "node-0 node-1 node-2 node-3 node-4",
    "state": "node-3 node-4 node-0 node-1 node-2",
    "restarts": "node-3 node-0 node-1 node-4 node-2",
    "age": "node-1 node-4 node-3 node-0 node-2",
}
"""Each of them is another one, backwards too. node-2 has no pod; of equals the next in the update comes first."""


@pytest.fixture
def five() -> NodeSurvey:
    """node-3 is updated, node-4 on the way; node-0 and node-1 are next."""
    details = {one.node: detail(one, container(ready=one.ready, restarts=RESTARTS[one.node])) for one in PODS}
    return survey(snapshot(ds("v2"), pods=PODS, details=details, nodes=5))


@pytest.mark.parametrize("sort", ORDERS)
def test_each_column_has_its_order(five: NodeSurvey, sort: str) -> None:
    rows = chosen_rows(five, choice_of("", excluded=False, group=None, sort=sort))
    assert [row.node for row in rows] == ORDERS[sort].split()


def test_nodes_that_the_order_puts_first_come_first() -> None:
    nodes = (node("node-0"), node("node-1", labels={"tier": "canary"}), node("node-2"))
    order = (OrderRule(match_labels={"tier": "canary"}),)
    surveyed = survey(snapshot(ds("v2", rolling={"order": order}), pods=everywhere(3), nodes=nodes))
    assert [row.node for row in surveyed.in_update_order] == ["node-1", "node-2", "node-0"]


EXCLUDED = (node("node-0"), node("node-1", taint("gpu")), node("node-2", taint("gpu")))


@pytest.mark.parametrize(
    ("only", "excluded", "shown"),
    [
        ("", False, "node-0 node-1"),
        ("all", False, "node-0 node-1"),
        ("", True, "node-0 node-1 node-2"),
        ("excluded", False, "node-1 node-2"),
        ("updated", False, "node-0"),
        ("updated", True, "node-0 node-1 node-2"),
        ("UPDATED,failing", False, "node-0"),
    ],
)
def test_nodes_without_need_of_a_pod_are_shown_when_asked_for(only: str, excluded: bool, shown: str) -> None:
    """node-2 has none, and node-1 has one that will go."""
    seen = survey(snapshot(ds(), pods=served("node-0", "node-1"), nodes=EXCLUDED))
    rows = chosen_rows(seen, choice_of(only, excluded=excluded, group=None, sort="update"))
    assert [row.node for row in rows] == shown.split()


def test_several_labels_that_hold_a_pod_are_to_be_removed() -> None:
    held = Preparing(node="node-0", pod="agent", since=None, held_by=("label hook=yes", "finalizer example.io/busy"))
    assert held.words(0.0, beside="agent") == "held until label hook=yes and finalizer example.io/busy are removed"
