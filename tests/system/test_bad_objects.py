"""One bad object is told by event, condition, log and metric, and nobody else suffers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.beds.api import DAEMONSETS, PODS, Object
from tests.beds.controller.bed import Bed, uids
from tests.beds.controller.metrics import metric
from tests.beds.controller.opening import simulated
from tests.beds.objects import V2, condition, daemonset, labelled, requires
from tests.beds.simulator.kinds import DAEMONSETS as DAEMONSET_KIND
from tests.beds.simulator.kinds import NODES as NODE_KIND
from tests.beds.simulator.kinds import PODS as POD_KIND
from tests.beds.simulator.kinds import REVISIONS as REVISION_KIND
from tests.beds.simulator.objects import Kind
from tests.system.both import both_beds

REFUSED = [{"name": "agent", "image": V2, "volumeMounts": [{"name": "nowhere", "mountPath": "/data"}]}]
"""Containers that the CRD lets pass and the server refuses in a pod."""


async def others_go_on(bed: Bed, *nodes: str) -> None:
    """A DaemonSet that comes now is deployed and updated as ever."""
    await bed.api.create(DAEMONSETS, daemonset("other"))
    await bed.settled("other")
    await bed.runs_on(*nodes, name="other")
    await bed.set_image(V2, "other")
    await bed.settled("other")
    await bed.runs_on(*nodes, name="other", image=V2)


def spoil(bed: Bed, kind: Kind, name: str, field: str, value: Any) -> None:
    """Put an object with a field of the wrong type into the simulator, as no server should but some have."""
    cluster = bed.simulator.cluster
    stored = cluster.get(kind, bed.api.namespace if kind.namespaced else "", name)
    broken = stored.copy()
    *parents, last = field.split(".")
    inner = broken
    for parent in parents:
        inner = inner.setdefault(parent, {})
    inner[last] = value
    cluster.store.put(kind, stored.name, broken)


@both_beds
async def test_a_template_that_the_server_refuses_costs_no_old_pod(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(), nodes=3)
    before = uids(await bed.pods())
    await bed.edit({"template": {"spec": {"containers": REFUSED}}})
    degraded = await bed.condition("Degraded", "TemplateRefused")
    assert 'Not found: "nowhere"' in degraded["message"]
    await bed.event("TemplateRefused", 'Not found: "nowhere"')
    await others_go_on(bed, *nodes)
    assert uids(await bed.pods()) == before
    assert {write.verb for write in bed.journal.of("pods", failed=True) if write.name.startswith("agent-")} == {
        "probe"
    }
    assert len([write for write in bed.journal.of("pods", "probe", failed=True) if write.status == 422]) == 1

    await bed.edit({"template": {"spec": {"containers": [{"name": "agent", "image": V2}]}}})
    await bed.settled()
    await bed.runs_on(*nodes, image=V2)
    assert condition(await bed.daemonset(), "Degraded")["reason"] == "AsExpected"


async def test_a_first_template_that_the_server_refuses_is_told_and_tried_seldom(bed: Bed) -> None:
    nodes = await bed.add_nodes(3)
    await bed.api.create(DAEMONSETS, daemonset(pod={"containers": REFUSED}))
    degraded = await bed.condition("Degraded", "WritesFail")
    assert 'Not found: "nowhere"' in degraded["message"]
    await bed.event("FailedCreate", 'Not found: "nowhere"')
    await others_go_on(bed, *nodes)
    assert await bed.pods() == {}
    await bed.status(observed=1, desired=3)


@pytest.mark.parametrize(
    "rolling",
    [
        {"maxUnavailable": 1, "selector": {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}},
        {"maxUnavailable": "some"},
        {"maxUnavailable": 1, "partition": "most"},
    ],
    ids=["selector", "maxUnavailable", "partition"],
)
async def test_a_strategy_that_cannot_be_read_changes_nothing_and_is_told(bed: Bed, rolling: Object) -> None:
    nodes = await bed.deploy(daemonset(), nodes=2)
    before = uids(await bed.pods())
    bed.simulator.cluster.admission.clear()
    await bed.edit({"updateStrategy": {"rollingUpdate": rolling}})
    await bed.set_image(V2)
    degraded = await bed.condition("Degraded", "InvalidSpec")
    assert "rollingUpdate." in degraded["message"]
    await bed.event("InvalidSpec", "rollingUpdate.")
    await others_go_on(bed, *nodes)
    assert uids(await bed.pods()) == before
    await bed.edit({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 1, "selector": None, "partition": None}}})
    await bed.settled()
    await bed.runs_on(*nodes, image=V2)


@pytest.mark.parametrize(
    ("mistyped", "field", "meant"),
    [
        (
            {"affinity": requires({"matchExpressions": [{"key": "zone", "operator": "in", "values": ["a"]}]})},
            "nodeSelectorTerms[0].matchExpressions[0].operator: 'in'",
            {"affinity": requires(labelled("zone", "a"))},
        ),
        (
            {"tolerations": [{"key": "dedicated", "operator": "exists", "effect": "NoExecute"}]},
            "spec.template.spec.tolerations[0].operator: 'exists'",
            {"tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}]},
        ),
    ],
    ids=["affinity", "toleration"],
)
async def test_placement_that_cannot_be_read_deletes_no_pod_and_is_told(
    bed: Bed, mistyped: Object, field: str, meant: Object
) -> None:
    """No dry run shows it to the server: what cannot be read must not be taken for "no node"."""
    nodes = await bed.add_nodes(2, labels={"zone": "a"})
    for node in nodes:
        await bed.taint(node, {"key": "dedicated", "value": "x", "effect": "NoExecute"})
    tolerant = [{"key": "dedicated", "operator": "Exists"}]
    await bed.deploy(daemonset(pod={"tolerations": tolerant}))
    before = uids(await bed.runs_on(*nodes))
    await bed.edit({"template": {"spec": mistyped}})
    degraded = await bed.condition("Degraded", "InvalidSpec")
    assert field in degraded["message"]
    await bed.event("InvalidSpec", field)
    await others_go_on(bed)
    assert uids(await bed.pods()) == before
    assert [write for write in bed.journal.of("pods", failed=True) if write.name.startswith("agent-")] == []

    await bed.edit({"template": {"spec": meant}})
    await bed.settled()
    after = uids(await bed.runs_on(*nodes))
    assert not set(before.values()) & set(after.values())
    assert condition(await bed.daemonset(), "Degraded")["reason"] == "AsExpected"


async def test_a_template_with_a_field_of_the_wrong_type_is_told(bed: Bed) -> None:
    nodes = await bed.add_nodes(2)
    await bed.api.create(DAEMONSETS, daemonset(pod={"nodeSelector": "blue"}))
    await bed.condition("Degraded", "InvalidSpec")
    await bed.event("InvalidSpec", "spec.template")
    await others_go_on(bed, *nodes)
    assert await bed.pods() == {}


async def test_a_pod_that_cannot_be_read_is_told_and_its_last_good_state_is_kept(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(), nodes=3)
    before = uids(await bed.pods())
    broken = (await bed.pods())["node-1"]["metadata"]["name"]
    spoil(bed, POD_KIND, broken, "metadata.labels", "none")
    await bed.event("MalformedObject", broken)
    degraded = await bed.condition("Degraded", "WritesFail")
    assert broken in degraded["message"]
    assert metric(bed.controller, "kruise_ds_malformed_objects_total", resource="pods") == 1
    await bed.idle()
    assert bed.journal.of("pods") == []
    assert uids(await bed.pods()) == before
    await others_go_on(bed, *nodes)

    await bed.api.delete(PODS, broken)
    after = uids(await bed.runs_on(*nodes))
    assert {node for node in nodes if after[node] != before[node]} == {"node-1"}
    await bed.condition("Degraded", "AsExpected")


async def test_a_pod_that_could_never_be_read_is_told_until_it_is_gone() -> None:
    async with simulated() as bed:
        await bed.deploy(daemonset(), nodes=2)
        await bed.controller.stop()
        pod = next(iter((await bed.pods()).values()))
        spec = {"containers": pod["spec"]["containers"], "nodeName": "nowhere"}
        await bed.api.create(
            PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "agent-new"}, "spec": spec}
        )
        spoil(bed, POD_KIND, "agent-new", "metadata.labels", "none")
        bed.controller.start()
        degraded = await bed.condition("Degraded", "WritesFail")
        assert "agent-new cannot be read" in degraded["message"]
        await bed.idle()
        cluster = bed.simulator.cluster
        cluster.store.remove(cluster.get(POD_KIND, bed.api.namespace, "agent-new"))
        await bed.condition("Degraded", "AsExpected")


@pytest.mark.parametrize("field", ["spec.minReadySeconds", "spec.selector.matchLabels"])
async def test_a_daemonset_that_cannot_be_read_keeps_its_pods_and_is_told(bed: Bed, field: str) -> None:
    nodes = await bed.deploy(daemonset(), nodes=2)
    before = uids(await bed.pods())
    spoil(bed, DAEMONSET_KIND, "agent", field, "ten")
    await bed.event("MalformedObject", "agent")
    assert metric(bed.controller, "kruise_ds_malformed_objects_total", resource="daemonsets") == 1
    await others_go_on(bed, *nodes)
    assert uids(await bed.pods()) == before
    assert [write for write in bed.journal.of("pods", failed=True) if write.name.startswith("agent-")] == []


async def test_a_revision_or_node_that_cannot_be_read_stops_nothing(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(), nodes=2)
    before = uids(await bed.pods())
    spoil(bed, NODE_KIND, "node-1", "metadata.annotations", "many")
    (revision,) = await bed.revisions()
    spoil(bed, REVISION_KIND, revision["metadata"]["name"], "revision", "first")
    await others_go_on(bed, *nodes)
    assert uids(await bed.pods()) == before
    await bed.update(V2)
    await bed.runs_on(*nodes, image=V2)
