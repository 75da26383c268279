"""Each warning that a plan can give: when it is given, in which words, and when it is not."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSet, LifecycleHook, OrderRule
from controller.api.node import Node
from controller.api.objects import JSONObject
from controller.api.pod import Pod
from kubectl_plugin.forecast.warnings import QUESTIONS, warnings_of
from kubectl_plugin.rollout.survey import forecast_world
from tests.beds.forecasts import forecast
from tests.beds.snapshots import snapshot
from tests.beds.worlds import ds, everywhere, node, numbered, pod, revision, served, taint, template

HOOK = LifecycleHook(labels_handler={"app": "demo"})
PORTS = [{"name": "main", "image": "demo:v2", "ports": [{"containerPort": 9100, "hostPort": 9100}]}]
SILENT = taint("node.kubernetes.io/unreachable", "NoExecute")
NOT_READY = taint("node.kubernetes.io/not-ready", "NoExecute")
CANARY = {"track": "canary"}


def zoned(*names: str, labels: dict[str, str] | None = None) -> tuple[Node, ...]:
    """`a-1` is in zone-a."""
    return tuple(
        node(name, labels={"topology.kubernetes.io/zone": f"zone-{name[0]}", **(labels or {})}) for name in names
    )


def warned(daemonset: DaemonSet, **fields: Any) -> dict[str, str]:
    """What is said, by the name of the warning; `annotations` are those of the document."""
    annotations = fields.pop("annotations", None)
    seen = snapshot(daemonset, **fields)
    if annotations:
        seen = replace(seen, document={"metadata": {"annotations": annotations}})
    return {one.name: one.text for one in warnings_of(seen, forecast(forecast_world(seen)))}


def sized(cpu: str) -> list[JSONObject]:
    resources: JSONObject = {"requests": {"cpu": "100m"}, "limits": {"cpu": cpu}}
    return [{"name": "main", "image": "demo:v2", "resources": resources}]


FEW = everywhere(3)
BROKEN = (*served("node-0", "node-1"), pod("node-2", ready=None))

CASES: list[tuple[str, DaemonSet, dict[str, Any], str]] = [
    (
        "OldPodsNotAvailable",
        ds("v2"),
        {"nodes": 3, "pods": BROKEN},
        "1 old pod is not available: it is replaced at once, whatever maxUnavailable says: node-2",
    ),
    (
        "OldPodsNotAvailable",
        ds("v2", max_surge=1),
        {"nodes": 4, "pods": tuple(pod(f"node-{number}", ready=None) for number in range(4))},
        "4 old pods are not available: they are replaced at once, whatever maxSurge says: node-3, node-2, node-1 and"
        " 1 more",
    ),
    (
        "SelectorMatchesNoNode",
        ds("v2", selector=CANARY),
        {"nodes": 3, "pods": FEW},
        "rollingUpdate.selector matches none of 3 nodes: nothing is updated",
    ),
    (
        "Partition",
        ds("v2", partition=30),
        {"nodes": 3, "pods": FEW},
        "partition 30 keeps 30 pods OLD, but there are only 3 nodes: nothing is updated",
    ),
    (
        "Partition",
        ds("v2", partition=3),
        {"nodes": 3, "pods": FEW},
        "partition 3 keeps the pods of all 3 nodes OLD: nothing is updated",
    ),
    (
        "Partition",
        ds("v2", partition="30%"),
        {"nodes": 3, "pods": FEW},
        "partition 30% of 3 nodes = 0 kept old: every node is updated",
    ),
    (
        "Partition",
        ds("v2", partition="100%"),
        {"nodes": 3, "pods": FEW},
        "partition 100% of 3 nodes = 3 kept old: nothing is updated",
    ),
    (
        "UpdatedOutsideThePlan",
        ds("v2", partition=2),
        {"nodes": 3, "pods": (*served("node-0"), *served("node-1", "node-2", rev="v2"))},
        "1 node has the new revision outside the plan and will not be moved back: node-1",
    ),
    (
        "UpdatedOutsideThePlan",
        ds("v2", selector=CANARY),
        {
            "nodes": [*numbered(2), node("node-2", labels=CANARY)],
            "pods": (*served("node-2"), *served("node-0", "node-1", rev="v2")),
        },
        "2 nodes have the new revision outside the plan and will not be moved back: node-1, node-0",
    ),
    (
        "SurgeSharesPorts",
        ds("v2", max_surge=1, containers=PORTS),
        {"nodes": 3, "pods": FEW},
        "maxSurge with hostPort 9100 (main): two pods cannot share a port, the new one waits for ever",
    ),
    (
        "SurgeSharesPorts",
        ds("v2", max_surge=1, hostNetwork=True),
        {"nodes": 3, "pods": FEW},
        "maxSurge with hostNetwork: for a while two pods share each node's ports",
    ),
    (
        "ResizedInPlace",
        ds("v2", rolling_update_type="InPlaceIfPossible", containers=sized("2")),
        {"nodes": 3, "pods": FEW, "revisions": [revision("v1", of=template("v1", containers=sized("1")))]},
        "planned without the feature gate InPlaceWorkloadVerticalScaling: where the controller has it, cpu and memory"
        " change in place on 3 nodes: node-2, node-1, node-0",
    ),
    (
        "ChangedByAdmission",
        ds("v2", rolling_update_type="InPlaceIfPossible"),
        {"nodes": 3, "pods": FEW, "unasked": [FEW[0].uid]},
        "1 pod has an image, cpu or memory that admission changed: whether it can be updated in place is only known"
        " when the controller asks",
    ),
    (
        "PreDeleteHook",
        ds("v2", hook=HOOK),
        {"nodes": 3, "pods": FEW},
        "the preDelete hook holds the old pods of 3 nodes: node-2, node-1, node-0",
    ),
    (
        "NodesNotReady",
        ds("v2", max_unavailable=2),
        {"nodes": [*numbered(2), node("node-2", SILENT)], "pods": FEW},
        "1 node is not ready and uses 1 of maxUnavailable 2: node-2",
    ),
    (
        "NodesNotReady",
        ds("v2", max_unavailable=2),
        {
            "nodes": [node("node-0"), node("node-1", NOT_READY), node("node-2", NOT_READY)],
            "pods": (*served("node-0"), pod("node-1", ready=None), pod("node-2", "v2", ready=None)),
        },
        "2 nodes are not ready and use 2 of maxUnavailable 2: node-2, node-1",
    ),
    (
        "OneZone",
        ds("v2", partition=2),
        {"nodes": zoned("a-1", "a-2", "b-1", "b-2"), "pods": served("a-1", "a-2", "b-1", "b-2")},
        "all 2 target nodes are in zone-b (order is by node name, highest first)",
    ),
    (
        "ManagedElsewhere",
        ds("v2"),
        {"nodes": 3, "pods": FEW, "annotations": {"argocd.argoproj.io/tracking-id": "agents:x"}},
        'demo is managed by Argo CD app "agents" (self-heal may revert this); change it in Git as well',
    ),
]


@pytest.mark.parametrize(("name", "daemonset", "around", "words"), CASES)
def test_the_warning_is_given_in_these_words(
    name: str, daemonset: DaemonSet, around: dict[str, Any], words: str
) -> None:
    assert warned(daemonset, **around).get(name) == words


def test_every_warning_is_tried_here() -> None:
    assert {name for name, *_ in CASES} == set(QUESTIONS)


QUIET: list[tuple[str, DaemonSet, tuple[Pod, ...], Any]] = [
    ("a plain rollout", ds("v2"), FEW, 3),
    ("a partition that keeps some", ds("v2", partition=1), FEW, 3),
    ("a percentage that keeps some", ds("v2", partition="34%"), FEW, 3),
    ("an explicit partition of nothing", ds("v2", partition="0%"), FEW, 3),
    ("a first deployment, which no partition holds", ds("v1", partition=30), (), 3),
    ("in place, but nothing is left to do", ds("v1", rolling_update_type="InPlaceIfPossible"), FEW, 3),
    ("a hook that holds none of these pods", ds("v2", hook=LifecycleHook(labels_handler={"x": "y"})), FEW, 3),
    ("host ports without surge", ds("v2", containers=PORTS), FEW, 3),
    ("a surge without host ports", ds("v2", max_surge=1), FEW, 3),
    ("a selector that matches", ds("v2", selector=CANARY), FEW, [*numbered(2), node("node-2", labels=CANARY)]),
    ("updated nodes within the partition", ds("v2", partition=2), (*FEW[:2], *served("node-2", rev="v2")), 3),
    ("not ready, but it serves", ds("v2"), FEW, [*numbered(2), node("node-2", NOT_READY)]),
    ("targets in two zones", ds("v2"), served("a-1", "b-1"), zoned("a-1", "b-1")),
    (
        "targets in one zone, by order",
        ds("v2", partition=2, rolling={"order": (OrderRule(group_by="zone"),)}),
        served("a-1", "a-2", "b-1", "b-2"),
        zoned("a-1", "a-2", "b-1", "b-2"),
    ),
    ("only one zone there is", ds("v2", partition=1), served("a-1", "a-2", "a-3"), zoned("a-1", "a-2", "a-3")),
]


@pytest.mark.parametrize(
    ("daemonset", "pods", "nodes"), [case[1:] for case in QUIET], ids=[case[0] for case in QUIET]
)
def test_nothing_is_said_of(daemonset: DaemonSet, pods: tuple[Pod, ...], nodes: Any) -> None:
    assert warned(daemonset, nodes=nodes, pods=pods) == {}


def test_the_hints_are_commands_that_exist() -> None:
    seen = snapshot(ds("v2", partition=30), nodes=3, pods=FEW)
    (concern,) = warnings_of(seen, forecast(forecast_world(seen)))
    assert concern.hints == (
        "to update 30% of the nodes: kubectl kruise-ds set-partition demo -n default --update 30%",
    )
