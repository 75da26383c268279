"""The pod that is created."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controller.api import pod as pods
from controller.api.daemonset import LifecycleHook
from controller.api.names import KRUISE_POD_READY
from controller.api.objects import JSONObject
from controller.planner.node_fit import daemon_tolerations
from controller.planner.pod_template import PodRenderer, pod_name
from controller.planner.world import FormerPod, Predecessor
from tests.beds.worlds import OURS, ds, revision, template


def made(pod_template: JSONObject | None = None, *, name: str = "demo-x", on: str = "node-0", rev: str = "v1") -> Any:
    stored = revision(rev, of=pod_template or template(rev))
    return msgspec.json.decode(PodRenderer(ds(), stored).body(name, on))


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
AUTOMATIC = [
    {"key": one.key, "operator": "Exists", "effect": one.effect} for one in daemon_tolerations(host_network=False)
]


def test_a_pod_is_aimed_by_one_term_and_left_to_the_scheduler() -> None:
    spec = made(on="node-3")["spec"]
    assert "nodeName" not in spec
    required = spec["affinity"]["nodeAffinity"][REQUIRED]
    field = {"key": "metadata.name", "operator": "In", "values": ["node-3"]}
    assert required == {"nodeSelectorTerms": [{"matchFields": [field]}]}


def test_the_projection_reads_the_aim_back() -> None:
    view = msgspec.json.decode(PodRenderer(ds(), revision("v1")).body("demo-x", "node-3"), type=pods.PodView)
    record = pods.project(view)
    assert record is not None
    assert (record.node, record.bound, record.owner_uid, record.hash) == ("node-3", False, OURS, "v1")


def test_required_terms_of_a_template_are_replaced_preferences_kept() -> None:
    preferred = [{"weight": 1, "preference": {"matchExpressions": [{"key": "ssd", "operator": "Exists"}]}}]
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": []}]},
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        },
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []},
    }
    spec = made(template("v1", affinity=affinity))["spec"]
    assert spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] == preferred
    assert "podAntiAffinity" in spec["affinity"]
    [term] = spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert list(term) == ["matchFields"]


def test_metadata() -> None:
    pod_template = template("v1")
    pod_template["metadata"] = {
        "labels": {"app": "demo", "tier": "net"},
        "annotations": {"note": "x"},
        "finalizers": ["demo.io/hold"],
        "creationTimestamp": None,
    }
    assert made(pod_template, name="demo-abc")["metadata"] == {
        "name": "demo-abc",
        "generateName": "demo-",
        "namespace": "default",
        "labels": {"app": "demo", "tier": "net", "controller-revision-hash": "v1"},
        "annotations": {"note": "x"},
        "finalizers": ["demo.io/hold"],
        "ownerReferences": [
            {
                "apiVersion": "apps.kruise.io/v1beta1",
                "kind": "DaemonSet",
                "name": "demo",
                "uid": OURS,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    assert made()["metadata"].keys() == {"name", "generateName", "namespace", "labels", "ownerReferences"}


def test_unknown_fields_reach_the_pod() -> None:
    spec = made(template("v1", fieldOfTheYear2040={"deep": [1, None, "x"]}))["spec"]
    assert spec["fieldOfTheYear2040"] == {"deep": [1, None, "x"]}
    assert spec["containers"] == [{"name": "main", "image": "demo:v1"}]


@pytest.mark.parametrize("key", ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"])
def test_an_automatic_toleration_replaces_one_that_ends_the_pod_after_a_while(key: str) -> None:
    """Or taint eviction would delete the pod again and again."""
    brief = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    wider = {"key": key, "operator": "Exists", "tolerationSeconds": 5}
    assert made(template("v1", tolerations=[brief, wider]))["spec"]["tolerations"] == [wider, *AUTOMATIC]


def test_automatic_tolerations_are_added_once() -> None:
    own = {"key": "gpu", "operator": "Exists"}
    assert made()["spec"]["tolerations"] == AUTOMATIC
    assert made(template("v1", tolerations=[own, AUTOMATIC[2]]))["spec"]["tolerations"] == [own, *AUTOMATIC]
    on_host = made(template("v1", hostNetwork=True, tolerations="nonsense"))["spec"]["tolerations"]
    assert on_host[-1]["key"] == "node.kubernetes.io/network-unavailable"


def test_the_whole_body_leaves_out_no_field_that_the_pod_has_in_another_form() -> None:
    """The server names a field that it does not know only where it sees it."""
    on_node: JSONObject = {"key": "metadata.name", "operator": "In", "values": ["node-3"]}
    terms: JSONObject = {"nodeSelectorTerms": [{"matchExpresions": []}], "odd": 1}
    brief = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSecs": 5}
    written = template("v1", affinity={"nodeAffinity": {REQUIRED: terms}}, tolerations=[brief])
    renderer = PodRenderer(ds(), replace(revision("v1"), template=written))
    whole: Any = msgspec.json.decode(renderer.whole("demo-x", "node-3"))
    assert whole["spec"]["tolerations"] == [brief, *AUTOMATIC]
    expected = {"nodeSelectorTerms": [{"matchExpresions": [], "matchFields": [on_node]}], "odd": 1}
    assert whole["spec"]["affinity"]["nodeAffinity"][REQUIRED] == expected
    assert whole["metadata"] == msgspec.json.decode(renderer.body("demo-x", "node-3"))["metadata"]


@pytest.mark.parametrize("affinity", [{}, {"nodeAffinity": {"odd": 1}}, {"nodeAffinity": {REQUIRED: {}}}])
def test_the_whole_body_is_the_body_where_nothing_is_replaced(affinity: JSONObject) -> None:
    renderer = PodRenderer(ds(), replace(revision("v1"), template=template("v1", affinity=affinity)))
    whole, body = renderer.whole("demo-x", "node-3"), renderer.body("demo-x", "node-3")
    assert msgspec.json.decode(whole) == msgspec.json.decode(body)


def test_one_mold_stamps_every_pod_and_odd_names_are_escaped() -> None:
    renderer = PodRenderer(ds(), revision("v1"))
    for name, node in (("demo-a", "node-a"), ("demo-b", 'no"de')):
        body: Any = msgspec.json.decode(renderer.body(name, node))
        required = body["spec"]["affinity"]["nodeAffinity"][REQUIRED]
        assert body["metadata"]["name"] == name
        assert required["nodeSelectorTerms"][0]["matchFields"][0]["values"] == [node]


@pytest.mark.parametrize(
    "text",
    [
        "\u0001name",
        "\u0001node",
        "\u0001name\u0001",
        "\u0001node\u0001",
        "\u0001\u0001name\u0001node",
        '"\u0001name"',
        "\0",
        '"\0"',
        "\\u0000",
    ],
)
def test_whatever_a_template_says_its_pods_are_made(text: str) -> None:
    body = made(template("v1", hostname=text), name="demo-x", on="node-7")
    required = body["spec"]["affinity"]["nodeAffinity"][REQUIRED]
    assert (body["metadata"]["name"], body["spec"]["hostname"]) == ("demo-x", text)
    assert required["nodeSelectorTerms"][0]["matchFields"][0]["values"] == ["node-7"]


@pytest.mark.parametrize("pod_template", [{}, {"metadata": [], "spec": "x"}, {"spec": {"affinity": None}}])
def test_a_malformed_template_still_makes_a_body_for_the_server(pod_template: JSONObject) -> None:
    body: Any = msgspec.json.decode(PodRenderer(ds(), replace(revision("v1"), template=pod_template)).body("a", "b"))
    assert body["kind"] == "Pod"
    assert body["metadata"]["labels"] == {"controller-revision-hash": "v1"}


def test_a_name_is_derived_from_the_daemonset_the_node_and_what_was_there() -> None:
    base = pod_name(ds(), "node-0", (), None)
    assert base == pod_name(ds(), "node-0", (), None)
    others = [
        pod_name(replace(ds(), uid="another"), "node-0", (), None),
        pod_name(ds(), "node-1", (), None),
        pod_name(ds(), "node-0", ("uid-a",), None),
        pod_name(ds(), "node-0", (), Predecessor(uid="uid-a", pod=FormerPod(hash="v1"))),
    ]
    assert len({base, *others}) == 5
    assert pod_name(ds(), "n", ("a", "b"), None) == pod_name(ds(), "n", ("b", "a"), None)


@pytest.mark.parametrize("name", ["a" * 80, "b" * 53 + ".c", "d" * 50 + "-.--e"])
def test_a_name_is_a_host_name_however_long_that_of_the_daemonset(name: str) -> None:
    given = pod_name(replace(ds(), name=name), "node-0", (), None)
    assert len(given) <= 63
    assert given.rpartition("-")[0][-1] not in ".-"


DISRUPTED = {"key": "karpenter.sh/disrupted", "operator": "Exists"}


def is_daemon_to_cluster_autoscaler(pod: Any) -> bool:
    owner = next(one for one in pod["metadata"]["ownerReferences"] if one["controller"])
    marked = (pod["metadata"].get("annotations") or {}).get("cluster-autoscaler.kubernetes.io/daemonset-pod")
    return bool(owner["kind"] == "DaemonSet" or marked == "true")


def is_daemon_to_descheduler(pod: Any) -> bool:
    return any(one["kind"] == "DaemonSet" for one in pod["metadata"]["ownerReferences"])


def stays_for_karpenter(pod: Any) -> bool:
    """It knows no daemon pods but those of apps/v1; of others those stay that tolerate its taint."""
    owners = [(one["apiVersion"], one["kind"]) for one in pod["metadata"]["ownerReferences"]]
    return ("apps/v1", "DaemonSet") in owners or DISRUPTED in pod["spec"]["tolerations"]


@pytest.mark.parametrize(
    ("pod", "to_karpenter"),
    [(made(), False), (made(template("v1", tolerations=[DISRUPTED])), True)],
    ids=["as it is", "with the toleration of docs/node-maintenance.md"],
)
def test_tools_that_empty_nodes_find_what_they_go_by(pod: Any, to_karpenter: bool) -> None:
    """Their rules as docs/node-maintenance.md tells them, from their sources."""
    assert is_daemon_to_cluster_autoscaler(pod)
    assert is_daemon_to_descheduler(pod)
    assert stays_for_karpenter(pod) is to_karpenter


@pytest.mark.parametrize(
    ("mark", "given", "gates"),
    [(True, [], [KRUISE_POD_READY]), (False, [], []), (True, [KRUISE_POD_READY], [KRUISE_POD_READY])],
)
def test_a_pod_that_a_hook_may_mark_has_one_gate_for_it(mark: bool, given: list[str], gates: list[str]) -> None:
    hook = LifecycleHook(labels_handler={"drain": "wait"}, mark_pod_not_ready=mark)
    stored = revision("v1", of=template("v1", readinessGates=[{"conditionType": one} for one in given]))
    spec = msgspec.json.decode(PodRenderer(ds(hook=hook), stored).body("demo-x", "node-0"))["spec"]
    assert [one["conditionType"] for one in spec["readinessGates"]] == gates
