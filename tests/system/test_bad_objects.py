"""One bad object is reported by event, condition, log and metric, and delays no other; what no pod has is named."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.beds.api import DAEMONSETS, PODS, Object
from tests.beds.controller.bed import Bed, uids
from tests.beds.controller.metrics import metric
from tests.beds.objects import V1, V2, condition, daemonset, labelled, requires
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


def rolling(**fields: Any) -> Object:
    return {"updateStrategy": {"rollingUpdate": fields}}


def placed(**fields: Any) -> Object:
    return {"template": {"spec": fields}}


NEAR = {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}
MISTYPED = {"key": "zone", "operator": "in", "values": ["a"]}
TOLERATED = {"key": "dedicated", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("edit", "field", "meant"),
    [
        (rolling(selector=NEAR), "rollingUpdate.selector", rolling(selector=None)),
        (rolling(maxUnavailable="some"), "rollingUpdate.maxUnavailable", rolling(maxUnavailable=1)),
        (rolling(partition="most"), "rollingUpdate.partition", rolling(partition=None)),
        (
            placed(affinity=requires({"matchExpressions": [MISTYPED]})),
            "nodeSelectorTerms[0].matchExpressions[0].operator: 'in'",
            placed(affinity=requires(labelled("zone", "a"))),
        ),
        (
            placed(tolerations=[{**TOLERATED, "operator": "exists"}]),
            "spec.template.spec.tolerations[0].operator: 'exists'",
            placed(tolerations=[{**TOLERATED, "operator": "Exists"}]),
        ),
    ],
    ids=["selector", "maxUnavailable", "partition", "affinity", "toleration"],
)
async def test_a_spec_that_cannot_be_read_costs_no_pod_and_is_reported(
    bed: Bed, edit: Object, field: str, meant: Object
) -> None:
    """No dry run shows it to the server: what cannot be read must not be taken for "no node"."""
    nodes = await bed.add_nodes(2, labels={"zone": "a"})
    for node in nodes:
        await bed.taint(node, {"key": "dedicated", "value": "x", "effect": "NoExecute"})
    await bed.deploy(daemonset(pod={"tolerations": [{"key": "dedicated", "operator": "Exists"}]}))
    before = uids(await bed.runs_on(*nodes))
    bed.simulator.cluster.admission.clear()
    await bed.edit(edit)
    await bed.edit({"template": {"metadata": {"labels": {"edited": "yes"}}}})
    degraded = await bed.condition("Degraded", "InvalidSpec")
    assert field in degraded["message"]
    await bed.event("InvalidSpec", field)
    await others_go_on(bed)
    assert uids(await bed.pods()) == before
    assert [write for write in bed.journal.of("pods", failed=True) if write.name.startswith("agent-")] == []
    await bed.edit(meant)
    await bed.settled()
    after = uids(await bed.runs_on(*nodes))
    assert not set(before.values()) & set(after.values())
    assert condition(await bed.daemonset(), "Degraded")["reason"] == "AsExpected"


async def test_a_pod_that_cannot_be_read_is_reported_and_its_last_good_state_is_kept(bed: Bed) -> None:
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


@pytest.mark.parametrize("field", ["spec.minReadySeconds", "spec.selector.matchLabels"])
async def test_a_daemonset_that_cannot_be_read_keeps_its_pods_and_is_reported(bed: Bed, field: str) -> None:
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


CONTAINER = "spec.template.spec.containers[0].livenesProbe"
SPELT = [{"name": "agent", "image": V2}]
MISSPELT: list[Object] = [{**SPELT[0], "livenesProbe": {"httpGet": {"port": 80}}}]
PLACES: dict[str, Object] = {
    CONTAINER: {"spec": {"containers": MISSPELT}},
    "spec.template.spec.hostnetwork": {"spec": {"hostnetwork": True}},
    "spec.template.nodeSelector": {"nodeSelector": {"disk": "ssd"}},
    "spec.template.metadata.annotation": {"metadata": {"annotation": {"a": "b"}}},
    "spec.template.status": {"status": {"phase": "Running"}},
}


async def allow(bed: Bed, value: str | None) -> None:
    await bed.api.patch(DAEMONSETS, "agent", {"metadata": {"annotations": {"kruise-ds/unknown-fields": value}}})


async def held(bed: Bed, field: str) -> None:
    """The condition and the event name the field, and the rollout is stalled."""
    degraded = await bed.condition("Degraded", "TemplateRefused")
    assert degraded["message"].startswith(f"unknown field {field} ")
    await bed.event("TemplateRefused", f"no pod is created: unknown field {field} ")
    await bed.condition("Stalled", "TemplateRefused")


@both_beds
@pytest.mark.parametrize("field", PLACES)
async def test_a_first_template_with_a_field_that_no_pod_has_makes_none(bed: Bed, field: str) -> None:
    nodes = await bed.add_nodes(3)
    new = daemonset(image=V1)
    misplaced = copy.deepcopy(PLACES[field])
    for part, fields in misplaced.items():
        new["spec"]["template"].setdefault(part, {}).update(fields)
    await bed.api.create(DAEMONSETS, new)
    await held(bed, field)
    await bed.idle()
    assert await bed.pods() == {}
    asked = [(write.verb, write.status) for write in bed.journal.of("pods", failed=True)]
    assert asked in ([("create", 400)], [("probe", 400)]), "one node is enough to find out"
    right: Object = dict.fromkeys(misplaced["spec"]) if "spec" in misplaced else {}
    right["containers"] = SPELT
    template: Object = {"spec": right, "nodeSelector": None, "status": None, "metadata": {"annotation": None}}
    await bed.edit({"template": template})
    await bed.settled()
    await bed.runs_on(*nodes, image=V2)
    assert condition(await bed.daemonset(), "Degraded")["reason"] == "AsExpected"


@both_beds
async def test_with_an_unknown_field_no_old_pod_is_replaced_until_allowed(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(), nodes=3)
    before = uids(await bed.pods())
    await bed.edit({"template": {"spec": {"containers": MISSPELT}}})
    await held(bed, CONTAINER)
    await bed.idle()
    assert uids(await bed.pods()) == before
    assert [(write.verb, write.status) for write in bed.journal.of("pods", failed=True)] == [("probe", 400)]
    await allow(bed, "yes")
    await bed.until(
        DAEMONSETS,
        lambda found: "" if "'yes' is not allow" in condition(found[0], "Degraded")["message"] else "not named",
        "the value of the annotation is named",
    )
    await allow(bed, "allow")
    await bed.settled()
    await bed.runs_on(*nodes, image=V2)
    assert condition(await bed.daemonset(), "Degraded")["reason"] == "AsExpected"


async def test_a_revision_that_pods_had_is_not_held_up(bed: Bed) -> None:
    """A lost pod comes back, also after a restart of the controller, and so does the revision by a rollback."""
    new = daemonset(pod={"containers": MISSPELT})
    new["metadata"]["annotations"] = {"kruise-ds/unknown-fields": "allow"}
    nodes = await bed.deploy(new, nodes=1)
    await allow(bed, None)
    await bed.controller.stop()
    await bed.api.delete(PODS, (await bed.pods())["node-0"]["metadata"]["name"])
    bed.controller.start()
    await bed.runs_on(*nodes, image=V2)
    await bed.edit({"template": {"spec": {"containers": [{"name": "agent", "image": V1}]}}})
    await bed.settled()
    await bed.runs_on(*nodes, image=V1)
    await bed.edit({"template": {"spec": {"containers": MISSPELT}}})
    await bed.settled()
    await bed.runs_on(*nodes, image=V2)
    assert len(bed.journal.of("pods", failed=True)) == len(bed.journal.of("pods")), "nothing is refused"


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
AIMS: dict[str, Object] = {
    f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpresions": {
        "affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpresions": [{"key": "disk"}]}]}}}
    },
    "tolerations[0].tolerationSecond": {
        "tolerations": [
            {
                "key": "node.kubernetes.io/not-ready",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSecond": 5,
            }
        ]
    },
}


@both_beds
@pytest.mark.parametrize("field", AIMS)
async def test_a_misspelt_choice_of_nodes_takes_no_pod_away(bed: Bed, field: str) -> None:
    """Such a template may match no node. The pods that it makes carry something else in its place."""
    nodes = await bed.deploy(daemonset(), nodes=2)
    before = uids(await bed.pods())
    await bed.edit({"template": {"spec": AIMS[field]}})
    await held(bed, f"spec.template.spec.{field}")
    await bed.idle()
    assert uids(await bed.pods()) == before
    await bed.edit({"template": {"spec": dict.fromkeys(AIMS[field])}})
    await bed.settled()
    await bed.runs_on(*nodes)
