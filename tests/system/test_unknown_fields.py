"""A template with fields that no pod has holds nothing up but itself, and the condition names the field."""

from __future__ import annotations

import copy

import pytest

from tests.beds.api import DAEMONSETS, PODS, Object
from tests.beds.controller.bed import Bed, uids
from tests.beds.objects import V1, V2, condition, daemonset
from tests.system.both import a_while, both_beds

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


async def test_it_is_tried_again_at_growing_intervals(bed: Bed) -> None:
    """The server may be upgraded to one that knows the field."""
    await bed.add_nodes(3)
    await bed.api.create(DAEMONSETS, daemonset(pod={"containers": MISSPELT}))
    await held(bed, CONTAINER)
    await a_while(bed, 200)
    tried = bed.journal.of("pods", "create", failed=True)
    assert [round(write.at - tried[0].at) for write in tried] == [0, 60, 180]


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


async def test_a_lost_pod_comes_back_as_it_was_while_the_new_one_is_held(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(), nodes=2)
    await bed.edit({"template": {"spec": {"containers": MISSPELT}}})
    await held(bed, CONTAINER)
    await bed.api.delete(PODS, (await bed.pods())["node-1"]["metadata"]["name"])
    await bed.runs_on(*nodes, image=V1)
    await bed.idle()
    assert [write.status for write in bed.journal.of("pods", "create")] == [201]


async def test_on_delete_a_deleted_pod_comes_back_as_it_was_too(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(updateStrategy={"type": "OnDelete"}), nodes=2)
    await bed.edit({"template": {"spec": {"containers": MISSPELT}}})
    await bed.seen()
    await bed.api.delete(PODS, (await bed.pods())["node-1"]["metadata"]["name"])
    await bed.runs_on(*nodes, image=V1)
    assert condition(await bed.daemonset(), "Degraded")["message"].startswith(f"unknown field {CONTAINER} ")


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


async def test_a_held_revision_is_nothing_to_fall_back_to(bed: Bed) -> None:
    """Once another template is there, a node that may not have it yet gets what ran before."""
    await bed.deploy(daemonset(rolling={"maxUnavailable": 1, "partition": 3}), nodes=2)
    await bed.edit({"template": {"spec": {"containers": MISSPELT}}})
    await bed.seen()
    await bed.edit({"template": {"spec": {"containers": [{"name": "agent", "image": f"{V2}.1"}]}}})
    await bed.seen()
    await bed.add_nodes(3)
    await bed.idle()
    await bed.runs_on("node-0", "node-1", "node-2", image=V1)
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


async def test_a_first_template_that_misspells_its_nodes_says_so(bed: Bed) -> None:
    await bed.add_nodes(2)
    field, spec = next(iter(AIMS.items()))
    await bed.api.create(DAEMONSETS, daemonset(pod=spec))
    await held(bed, f"spec.template.spec.{field}")


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
