"""Which nodes get a pod, and what happens to pods that end or are too many."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from tests.beds.api import DAEMONSETS, NODES, PODS, Object
from tests.beds.controller.bed import Bed, uids
from tests.beds.objects import V2, daemonset, labelled, named, on_delete, owner, requires
from tests.beds.pods import condition, node_of
from tests.system.both import both_beds

NO_SCHEDULE = {"key": "reserved", "effect": "NoSchedule"}
NO_EXECUTE = {"key": "reserved", "effect": "NoExecute"}

Make: TypeAlias = Callable[..., Object]

STRATEGIES = pytest.mark.parametrize("make", [daemonset, on_delete])


@both_beds
async def test_pods_follow_a_required_node_affinity(bed: Bed) -> None:
    await bed.deploy(daemonset(pod={"affinity": requires(labelled("color", "blue"))}), nodes=3)
    assert await bed.pods() == {}
    await bed.label_node("node-2", color="blue")
    await bed.runs_on("node-2")
    await bed.label_node("node-2", color="green")
    await bed.runs_on()
    assert (bed.journal.created, bed.journal.deleted) == (["node-2"], ["node-2"])


@STRATEGIES
@pytest.mark.parametrize("count", [1, 5])
async def test_every_node_gets_one_pod(bed: Bed, count: int, make: Make) -> None:
    nodes = await bed.add_nodes(count)
    await bed.api.create(DAEMONSETS, make())
    await bed.settled()
    await bed.status(desired=count, current=count, ready=count, updated=count)
    assert sorted(await bed.pods()) == nodes
    assert sorted(bed.journal.created) == nodes, "once each"


@STRATEGIES
@pytest.mark.parametrize("ending", ["Succeeded", "Failed", "Succeeded with a finalizer"])
async def test_a_pod_that_ended_is_replaced(bed: Bed, ending: str, make: Make) -> None:
    nodes = await bed.deploy(make(), nodes=3)
    before = await bed.pods()
    ended = before["node-1"]
    if "finalizer" in ending:
        hold = {"metadata": {"finalizers": ["example.com/hold"]}}
        await bed.api.patch(PODS, ended["metadata"]["name"], hold)
    await (bed.nodes.fail(ended) if ending == "Failed" else bed.nodes.succeed(ended))

    def replaced(found: list[Object]) -> str:
        there = {node_of(pod): pod["metadata"]["uid"] for pod in found if pod["status"]["phase"] == "Running"}
        missing = sorted(there) != nodes or there["node-1"] == ended["metadata"]["uid"]
        return f"running: {there}" if missing else ""

    await bed.until(PODS, replaced, "three running pods, on node-1 another one")
    await bed.status(desired=3, current=3, ready=3, available=3)
    assert bed.journal.created == ["node-1"]
    await bed.event("FailedDaemonPod" if ending == "Failed" else "SucceededDaemonPod", ended["metadata"]["name"])
    if "finalizer" in ending:
        still = await bed.api.get(PODS, ended["metadata"]["name"])
        assert still["metadata"]["deletionTimestamp"], "it was not waited for"
        await bed.api.patch(PODS, ended["metadata"]["name"], {"metadata": {"finalizers": None}})


async def test_terms_of_an_affinity_are_alternatives(bed: Bed) -> None:
    await bed.add_nodes(6)
    for node in ("node-3", "node-4"):
        await bed.label_node(node, zone="test")
    await bed.deploy(daemonset(pod={"affinity": requires(labelled("zone", "test"), named("node-1"))}))
    await bed.runs_on("node-1", "node-3", "node-4")


@STRATEGIES
async def test_a_node_that_is_not_ready_gets_its_pod(bed: Bed, make: Make) -> None:
    await bed.add_nodes(1)
    unready = {"conditions": [{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}]}
    await bed.api.patch(NODES, "node-0", {"status": unready}, sub="status")
    await bed.deploy(make())
    await bed.runs_on("node-0")


@STRATEGIES
async def test_a_pod_that_does_not_fit_is_created_all_the_same(bed: Bed, make: Make) -> None:
    await bed.nodes.add("node-0", allocatable={"memory": "100M"})
    requests = {"resources": {"requests": {"memory": "120M"}}}
    await bed.api.create(DAEMONSETS, make(pod={"containers": [{"name": "agent", "image": "agent:v1", **requests}]}))

    def unschedulable(found: list[Object]) -> str:
        states = [condition(pod, "PodScheduled") for pod in found]
        return "" if [state.get("reason") for state in states] == ["Unschedulable"] else f"{states}"

    await bed.until(PODS, unschedulable, "the pod for node-0 pending as Unschedulable")
    await bed.nodes.add("node-1", allocatable={"memory": "200M"})
    await bed.status(desired=2, current=2, ready=1)
    assert sorted(await bed.pods()) == ["node-0", "node-1"]
    assert not (await bed.pods())["node-0"]["spec"].get("nodeName")


@STRATEGIES
async def test_a_tainted_node_gets_its_pod_when_the_taint_goes(bed: Bed, make: Make) -> None:
    await bed.add_nodes(2)
    await bed.taint("node-1", NO_SCHEDULE)
    await bed.deploy(make())
    await bed.runs_on("node-0")
    await bed.status(desired=1, ready=1)
    await bed.taint("node-1")
    await bed.runs_on("node-0", "node-1")
    await bed.status(desired=2, ready=2)


async def test_noschedule_lets_a_pod_stay_and_noexecute_sends_it_away(bed: Bed) -> None:
    await bed.deploy(daemonset(), nodes=2)
    before = uids(await bed.pods())
    await bed.taint("node-1", NO_SCHEDULE)
    await bed.status(desired=1, current=1)
    await bed.idle()
    assert uids(await bed.pods()) == before
    await bed.taint("node-1", NO_EXECUTE)
    await bed.runs_on("node-0")
    assert bed.journal.deleted == ["node-1"]


async def test_host_network_pods_go_to_nodes_that_have_no_network_yet(bed: Bed) -> None:
    await bed.add_nodes(2)
    taints = [
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/network-unavailable", "effect": "NoSchedule"},
    ]
    await bed.taint("node-1", *taints)
    await bed.deploy(daemonset("plain"))
    await bed.runs_on("node-0", name="plain")
    await bed.deploy(daemonset(pod={"hostNetwork": True}))
    await bed.runs_on("node-0", "node-1")


@both_beds
async def test_a_node_that_goes_takes_its_unbound_pod_and_leaves_its_bound_one_to_others(bed: Bed) -> None:
    await bed.deploy(daemonset(), nodes=3)
    await bed.api.create(DAEMONSETS, daemonset("unbound", pod={"schedulerName": "nobody"}))
    await bed.status("unbound", desired=3, current=3)
    await bed.idle()
    bed.journal.clear()
    await bed.nodes.remove("node-2")
    await bed.status(desired=2, current=2, ready=2, available=2, misscheduled=0)
    await bed.status("unbound", desired=2, current=2, misscheduled=0)
    await bed.idle()
    assert sorted(await bed.pods("unbound")) == ["node-0", "node-1"]
    assert sorted(await bed.pods()) == ["node-0", "node-1", "node-2"], "the pod garbage collector's"
    (deleted,) = bed.journal.of("pods")
    assert (deleted.verb, deleted.node) == ("delete", "node-2")
    assert deleted.name.startswith("unbound-")


async def test_of_two_pods_on_a_node_the_bound_one_stays(bed: Bed) -> None:
    await bed.deploy(daemonset(), nodes=2)
    one = await bed.daemonset()
    bound = (await bed.pods())["node-1"]
    twin = {
        "metadata": {"name": "a-twin", "labels": bound["metadata"]["labels"], "ownerReferences": [owner(one)]},
        "spec": {
            "containers": [{"name": "agent", "image": "agent:v1"}],
            "schedulerName": "nobody",
            "affinity": requires(named("node-1")),
        },
    }
    await bed.api.create(PODS, twin)
    await bed.until(PODS, lambda found: "" if len(found) == 2 else f"{len(found)} pods", "the twin deleted")
    await bed.idle()
    assert (await bed.pods())["node-1"]["metadata"]["uid"] == bound["metadata"]["uid"]
    assert [write.name for write in bed.journal.of("pods")] == ["a-twin"]


async def test_on_delete_replaces_only_what_somebody_deletes(bed: Bed) -> None:
    nodes = await bed.deploy(on_delete(), nodes=3)
    before = uids(await bed.pods())
    await bed.set_image(V2)
    await bed.seen()
    await bed.idle()
    assert uids(await bed.pods()) == before
    assert [one["revision"] for one in await bed.revisions()] == [1, 2]
    assert bed.journal.of("pods") == []
    await bed.status(desired=3, updated=0, available=3)

    await bed.api.delete(PODS, (await bed.pods())["node-1"]["metadata"]["name"])
    await bed.idle()
    after = await bed.runs_on(*nodes)
    assert {node for node in nodes if uids(after)[node] != before[node]} == {"node-1"}
    assert after["node-1"]["spec"]["containers"][0]["image"] == V2


async def test_a_template_that_names_its_node_runs_only_there(bed: Bed) -> None:
    await bed.deploy(daemonset(pod={"nodeName": "node-1"}), nodes=3)
    await bed.runs_on("node-1")
    await bed.deploy(daemonset("nowhere", pod={"nodeName": "node-9"}))
    assert await bed.pods("nowhere") == {}
    contradiction = {"nodeName": "node-1", "nodeSelector": {"kubernetes.io/hostname": "node-2"}}
    await bed.deploy(daemonset("contradiction", pod=contradiction))
    assert await bed.pods("contradiction") == {}


@pytest.mark.parametrize(
    ("key", "effect"),
    [
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        ("node.kubernetes.io/pid-pressure", "NoSchedule"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
        ("example.com/whatever", "PreferNoSchedule"),
        ("reserved", "NoExecute"),
    ],
)
async def test_taints_that_daemon_pods_tolerate(bed: Bed, key: str, effect: str) -> None:
    await bed.nodes.add("node-0", taints=[{"key": key, "effect": effect}])
    tolerations = [{"key": "reserved", "operator": "Exists"}]
    await bed.deploy(daemonset(pod={"tolerations": tolerations}))
    await bed.runs_on("node-0")
