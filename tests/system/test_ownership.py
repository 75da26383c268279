"""Adoption, release and owners of all sorts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from tests.beds.api import DAEMONSETS, DAEMONSETS_ALPHA, NAMESPACES, PODS, REVISIONS, Api, Object
from tests.beds.controller.bed import Bed, uids
from tests.beds.controller.opening import simulated
from tests.beds.nodes import Behaviour
from tests.beds.objects import (
    V1,
    V2,
    V3,
    bare_pod,
    condition,
    controller_of,
    daemonset,
    garbage_collector_knows,
    names,
    owner,
)
from tests.beds.simulator.cluster import Attempt
from tests.beds.simulator.faults import Answer, Rule
from tests.beds.simulator.kinds import PODS as POD_KIND
from tests.beds.simulator.refusal import forbidden
from tests.beds.virtual_time import now
from tests.system.both import both_beds
from tests.system.in_place import in_place, is_open, runs

HASH = "controller-revision-hash"


def limits(**fields: object) -> Object:
    return {"type": "RollingUpdate", "rollingUpdate": fields}


@both_beds
async def test_deleting_takes_the_pods_and_orphaning_leaves_them_to_the_next(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(), nodes=3)
    before = uids(await bed.pods())
    await garbage_collector_knows(bed.api, PODS, REVISIONS)
    await bed.api.delete(DAEMONSETS, "agent", options={"propagationPolicy": "Orphan"})
    await bed.until(DAEMONSETS, lambda found: "still there" if found else "", "agent gone")
    left = await bed.api.list(PODS)
    assert sorted(pod["metadata"]["uid"] for pod in left) == sorted(before.values())
    assert [controller_of(pod) for pod in left] == [{}, {}, {}]

    await bed.deploy(daemonset())
    assert uids(await bed.runs_on(*nodes)) == before
    (revision,) = await bed.revisions()
    assert revision["revision"] == 1, "the old one, adopted too"

    await bed.api.delete(DAEMONSETS, "agent", options={"propagationPolicy": "Background"})
    await bed.until(PODS, lambda found: f"{len(found)} pods" if found else "", "the pods collected")
    await bed.until(REVISIONS, lambda found: f"{len(found)} left" if found else "", "the history collected")
    assert bed.journal.of("pods") == []


@both_beds
async def test_a_pod_orphaned_in_mid_update_is_finished_by_its_adopter(bed: Bed) -> None:
    await bed.deploy(in_place(), nodes=1)
    before = uids(await bed.pods())
    bed.nodes.behave("*", Behaviour(notice=0.1, pull=2.0, gate=0.1))
    await bed.set_image(V2)
    await bed.until(PODS, lambda found: "open" if any(map(is_open, found)) else "", "the pod is not ready")
    await bed.api.delete(DAEMONSETS, "agent", options={"propagationPolicy": "Orphan"})
    await bed.until(DAEMONSETS, lambda found: "still there" if found else "", "agent gone")
    await bed.until(PODS, lambda found: "" if all(runs(pod, V2) for pod in found) else "not yet", "v2 runs")
    assert not any(map(is_open, (await bed.pods()).values())), "nobody opens what is nobody's"
    await bed.deploy(daemonset(image=V2))
    assert uids(await bed.runs_on("node-0", image=V2)) == before
    assert all(map(is_open, (await bed.pods()).values()))


@both_beds
async def test_a_foreground_deletion_waits_for_pods_and_makes_no_new_ones(bed: Bed) -> None:
    await bed.deploy(daemonset(), nodes=3)
    await garbage_collector_knows(bed.api, PODS, REVISIONS)
    await bed.api.delete(DAEMONSETS, "agent", options={"propagationPolicy": "Foreground"})
    await bed.until(DAEMONSETS, lambda found: "still there" if found else "", "agent gone")
    assert await bed.api.list(PODS) == []
    await bed.idle()
    assert bed.journal.work == []


@both_beds
async def test_a_matching_orphan_is_adopted_unless_it_ends_or_differs(bed: Bed) -> None:
    await bed.deploy(daemonset(), nodes=2)
    one = await bed.daemonset()
    await bed.taint("node-1", {"key": "reserved", "effect": "NoExecute"})
    await bed.runs_on("node-0")
    await bed.idle()
    bed.journal.clear()
    await bed.api.create(PODS, bare_pod("stranger", "node-0", labels={"app": "other"}))
    await bed.api.create(PODS, bare_pod("orphan", "node-0"))
    await bed.until(PODS, lambda found: "" if "orphan" not in names(found) else "orphan is there", "orphan deleted")
    assert "stranger" in names(await bed.api.list(PODS))
    await bed.idle()
    adopted, deleted = bed.journal.of("pods")
    assert (adopted.verb, adopted.name, controller_of(adopted.answer)["uid"]) == (
        "patch",
        "orphan",
        one["metadata"]["uid"],
    )
    assert (deleted.verb, deleted.name) == ("delete", "orphan"), "the older one of two stays"


async def test_an_orphan_becomes_ours_when_its_labels_come_to_match(bed: Bed) -> None:
    await bed.nodes.add("node-0", taints=[{"key": "reserved", "effect": "NoSchedule"}])
    await bed.deploy(daemonset())
    await bed.api.create(PODS, bare_pod("stray", "node-0", labels={"app": "other"}))
    await bed.idle()
    assert bed.journal.work == []
    await bed.api.patch(PODS, "stray", {"metadata": {"labels": {"app": "agent"}}})
    await bed.until(PODS, lambda found: "" if controller_of(found[0]) else "stray is nobody's", "stray adopted")
    await bed.idle()
    assert [(write.verb, write.name) for write in bed.journal.of("pods")] == [("patch", "stray")]


@both_beds
async def test_a_pod_that_is_relabelled_is_released_and_replaced(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(), nodes=2)
    taken = (await bed.pods())["node-1"]
    await bed.api.patch(PODS, taken["metadata"]["name"], {"metadata": {"labels": {"app": "kept-for-a-look"}}})

    def released(found: list[Object]) -> str:
        return "" if not controller_of(by_name(found, taken["metadata"]["name"])) else "still controlled"

    await bed.until(PODS, released, f"{taken['metadata']['name']} released")
    after = await bed.runs_on(*nodes)
    assert after["node-1"]["metadata"]["uid"] != taken["metadata"]["uid"]
    assert bed.journal.deleted == [], "the released pod lives on"


@both_beds
async def test_a_pod_released_in_mid_update_gets_its_traffic(bed: Bed) -> None:
    await bed.deploy(in_place(), nodes=1)
    bed.nodes.behave("*", Behaviour(notice=0.1, missing_images=("*:v2",), gate=0.1))
    await bed.set_image(V2)
    await bed.until(PODS, lambda found: "open" if any(map(is_open, found)) else "", "the pod is not ready")
    taken = (await bed.pods())["node-0"]["metadata"]["name"]
    await bed.api.patch(PODS, taken, {"metadata": {"labels": {"app": "kept-for-a-look"}}})

    def let_go(found: list[Object]) -> str:
        pod = by_name(found, taken)
        return "still controlled" if controller_of(pod) else "" if is_open(pod) else "kept from its traffic"

    await bed.until(PODS, let_go, f"{taken} released")


@both_beds
async def test_a_pod_that_is_released_while_a_hook_holds_it_is_held_no_more(bed: Bed) -> None:
    await bed.add_nodes(1)
    hook = {"labelsHandler": {"example.io/drain": "true"}, "markPodNotReady": True}
    made = daemonset(lifecycle={"preDelete": hook})
    made["spec"]["template"]["metadata"]["labels"]["example.io/drain"] = "true"
    await bed.deploy(made)
    await bed.set_image(V2)
    state = "lifecycle.apps.kruise.io/state"
    await bed.until(
        PODS, lambda found: "" if state in found[0]["metadata"]["labels"] else "not prepared", "the hook holds it"
    )
    taken = (await bed.pods())["node-0"]["metadata"]["name"]
    await bed.api.patch(PODS, taken, {"metadata": {"labels": {"app": "kept-for-a-look"}}})

    def let_go(found: list[Object]) -> str:
        pod = by_name(found, taken)
        if controller_of(pod) or state in pod["metadata"]["labels"]:
            return "still controlled, or held"
        return "" if condition(pod, "KruisePodReady")["status"] == "True" else "kept from its traffic"

    await bed.until(PODS, let_go, f"{taken} released")


async def test_orphans_wait_while_the_read_before_their_adoption_fails() -> None:
    fault = Rule(verb="get", resource="daemonsets.apps.kruise.io", times=3, effect=Answer(500))
    async with simulated() as bed:
        bed.patience = 60.0
        nodes = await bed.deploy(daemonset(), nodes=6)
        before = uids(await bed.pods())
        await bed.api.delete(DAEMONSETS, "agent", options={"propagationPolicy": "Orphan"})
        await bed.until(DAEMONSETS, lambda found: "still there" if found else "", "agent gone")
        bed.simulator.link.faults.add(fault)
        await bed.deploy(daemonset())
        assert uids(await bed.runs_on(*nodes)) == before
        assert bed.simulator.link.faults.fired(fault) == 3
        assert bed.journal.of("pods", "create") == []


async def _deleted(bed: Bed, name: str) -> None:
    await bed.api.delete(PODS, name)


async def _relabelled(bed: Bed, name: str) -> None:
    await bed.api.patch(PODS, name, {"metadata": {"labels": {"app": "other"}}})


async def _taken(bed: Bed, name: str) -> None:
    foreign = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "other", "uid": "0-0", "controller": True}
    await bed.api.patch(PODS, name, {"metadata": {"ownerReferences": [foreign]}})


async def _terminating(bed: Bed, name: str) -> None:
    await bed.api.patch(PODS, name, {"metadata": {"finalizers": ["example.com/hold"]}})
    await bed.api.delete(PODS, name)


@pytest.mark.parametrize("end", [_deleted, _relabelled, _taken, _terminating])
async def test_a_node_has_no_pod_beside_an_orphan_that_may_not_be_adopted(
    end: Callable[[Bed, str], Awaitable[None]],
) -> None:
    """Until the orphan is known to be none of ours. A lost pod elsewhere comes back meanwhile."""

    def refuse(attempt: Attempt) -> None:
        adopts = controller_of(attempt.object).get("name") == "agent"
        if (attempt.kind, attempt.verb, attempt.subresource) == (POD_KIND, "update", "") and adopts:
            raise forbidden(POD_KIND, attempt.name, "the policy keeps it")

    async with simulated() as bed:
        bed.patience = 600.0
        nodes = await bed.add_nodes(4)
        orphans = {node: await bed.api.create(PODS, bare_pod(f"orphan-{node}", node)) for node in nodes[:3]}
        bed.simulator.cluster.admission.append(refuse)
        await bed.api.create(DAEMONSETS, daemonset())
        await bed.runs_on(nodes[3])
        await bed.condition("Degraded", "WritesFail")
        await asyncio.sleep(1800)
        assert bed.journal.created == [nodes[3]]
        conditions = {one["type"]: one for one in (await bed.daemonset())["status"]["conditions"]}
        said = "3 nodes wait until a pod without a controller is adopted or gone: node-0, node-1, node-2"
        assert said in conditions["Progressing"]["message"]
        assert "the policy keeps it" in conditions["Degraded"]["message"]

        began = now()
        await end(bed, orphans[nodes[1]]["metadata"]["name"])
        await bed.runs_on(nodes[1], nodes[3])
        assert now() - began < 2.0, "seconds: it does not wait for the next attempt"
        assert bed.journal.created == [nodes[3], nodes[1]]

        bed.simulator.cluster.admission.remove(refuse)
        after = uids(await bed.runs_on(*nodes))
        assert [after[node] for node in (nodes[0], nodes[2])] == [
            orphans[node]["metadata"]["uid"] for node in (nodes[0], nodes[2])
        ]
        assert bed.journal.created == [nodes[3], nodes[1]]


async def test_a_pod_whose_owner_is_taken_away_by_hand_is_adopted_again(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(), nodes=2)
    before = await bed.pods()
    name = before["node-1"]["metadata"]["name"]
    await bed.api.patch(PODS, name, {"metadata": {"ownerReferences": None}})
    assert uids(await bed.runs_on(*nodes)) == uids(before)
    await bed.idle()
    assert [(write.verb, write.name) for write in bed.journal.of("pods")] == [("patch", name)]


@both_beds
async def test_revisions_of_others_are_left_alone(bed: Bed) -> None:
    await bed.deploy(daemonset(), nodes=1)
    (ours,) = await bed.revisions()
    stranger = {"metadata": {"name": "stranger", "labels": {"app": "other", HASH: "x"}}, "data": ours["data"]}
    native = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "agent", "uid": "0-0", "controller": True}
    owned = {
        "metadata": {
            "name": "owned",
            "labels": {"app": "agent", HASH: "y"},
            "ownerReferences": [{**native, "blockOwnerDeletion": False}],
            "finalizers": ["example.com/hold"],
        },
        "data": ours["data"],
    }
    for revision in (stranger, owned):
        await bed.api.create(REVISIONS, {**revision, "revision": 7})
    orphan = {"metadata": {"name": "orphan", "labels": {"app": "agent", HASH: "z"}}, "revision": 5}
    await bed.api.create(REVISIONS, {**orphan, "data": other_data(ours)})
    await bed.idle()
    assert {write.name for write in bed.journal.of("controllerrevisions.apps")} == {
        "orphan",
        ours["metadata"]["name"],
    }
    assert controller_of(await bed.api.get(REVISIONS, "orphan"))["name"] == "agent"
    assert (await bed.api.get(REVISIONS, ours["metadata"]["name"]))["revision"] == 6, "the current one is the newest"
    await bed.api.patch(REVISIONS, "owned", {"metadata": {"finalizers": None}})


@both_beds
async def test_pods_owned_through_v1alpha1_are_ours(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(), nodes=3)
    one = await bed.daemonset()
    before = await bed.pods()
    await bed.controller.stop()
    for pod in before.values():
        references = [owner(one, version="v1alpha1")]
        await bed.api.patch(PODS, pod["metadata"]["name"], {"metadata": {"ownerReferences": references}})
    bed.controller.start()
    await bed.api.delete(PODS, before["node-1"]["metadata"]["name"])
    after = await bed.runs_on(*nodes)
    assert {node for node in nodes if uids(after)[node] == uids(before)[node]} == {"node-0", "node-2"}
    alpha = await bed.api.get(DAEMONSETS_ALPHA, "agent")
    assert alpha["metadata"]["uid"] == one["metadata"]["uid"]

    await bed.idle()
    bed.journal.clear()
    await bed.update(V2)
    assert bed.journal.deleted == ["node-2", "node-1", "node-0"]


async def test_an_owner_of_our_name_with_another_uid_is_not_ours(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(), nodes=1)
    one = await bed.daemonset()
    foreign = {**owner(one), "uid": "11111111-2222-3333-4444-555555555555"}
    pod = bare_pod("foreign", "node-0")
    pod["metadata"] |= {"ownerReferences": [foreign], "finalizers": ["example.com/hold"]}
    await bed.api.create(PODS, pod)
    await bed.idle()
    assert bed.journal.of("pods") == []
    await bed.status(desired=1, current=1, ready=1)
    await bed.api.patch(PODS, "foreign", {"metadata": {"finalizers": None}})
    assert nodes == ["node-0"]


async def test_same_names_in_two_namespaces_and_two_daemonsets_keep_apart(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(), nodes=2)
    await bed.deploy(daemonset("other"))
    await bed.runs_on(*nodes)
    await bed.runs_on(*nodes, name="other")
    await bed.api.delete(DAEMONSETS, "other")
    await bed.until(PODS, lambda found: "" if len(found) == 2 else f"{len(found)} pods", "the pods of other gone")
    await bed.runs_on(*nodes)
    assert bed.journal.of("pods") == []


def by_name(found: list[Object], name: str) -> Object:
    return next(one for one in found if one["metadata"]["name"] == name)


def other_data(revision: Object) -> Object:
    template = revision["data"]["spec"]["template"]
    containers = [{**template["spec"]["containers"][0], "image": "registry.example/agent:older"}]
    return {"spec": {"template": {**template, "spec": {**template["spec"], "containers": containers}}}}


@both_beds
async def test_an_owner_counts_in_its_own_namespace_only(bed: Bed) -> None:
    """In a namespace of his own a tenant claims that the DaemonSet controls what he has made there."""
    tenant = Api(bed.api.transport, f"{bed.api.namespace}-tenant")
    await tenant.create(NAMESPACES, {"metadata": {"name": tenant.namespace}})
    await bed.controller.stop()
    both = (bed.api.namespace, tenant.namespace)
    bed.controller.start(msgspec.structs.replace(bed.controller.settings, namespaces=both))
    await bed.deploy(daemonset(updateStrategy=limits(partition=2)), nodes=2)
    one, (first,) = await bed.daemonset(), await bed.revisions()
    claim = {"ownerReferences": [owner(one, block=False)]}
    stays = {"finalizers": ["example.com/stays"]}  # or the garbage collector would take it
    template = {**daemonset(image=V3)["spec"]["template"], "$patch": "replace"}
    for number, of in ((2**63 - 1, "planted"), (5, first["metadata"]["labels"][HASH])):
        metadata = {"name": f"agent-{of}", "labels": {"app": "agent", HASH: of}, **claim, **stays}
        planted = {"metadata": metadata, "data": {"spec": {"template": template}}, "revision": number}
        await tenant.create(REVISIONS, planted)
    stuck = bare_pod("agent-stuck", "node-0", image=V3)
    stuck["metadata"] |= {**claim, **stays}
    await tenant.create(PODS, stuck)

    await bed.set_image(V2)
    await bed.seen()
    for pod in (await bed.pods()).values():
        await bed.api.delete(PODS, pod["metadata"]["name"])
    await bed.runs_on("node-0", "node-1", image=V1)
    await bed.edit({"updateStrategy": limits(partition=0)})
    await bed.runs_on("node-0", "node-1", image=V2)
    assert [one["revision"] for one in await bed.revisions()] == [1, 2]
    assert {"agent-stuck", "agent-planted"}.isdisjoint(write.name for write in bed.journal.writes)
    for kind in (PODS, REVISIONS):
        for left in await tenant.list(kind):
            await tenant.patch(kind, left["metadata"]["name"], {"metadata": {"finalizers": None}})


async def test_a_revision_that_no_pod_had_is_nothing_to_fall_back_to(bed: Bed) -> None:
    """What a workload with the same labels has left is adopted as history; nodes that the selector keeps from the
    newest revision do not get it."""
    foreign = {**daemonset(image=V3)["spec"]["template"], "$patch": "replace"}
    for name, notes in (("left-1", {"team": "net"}), ("left-2", {})):
        metadata = {"name": name, "labels": {"app": "agent", HASH: name}, "annotations": notes}
        await bed.api.create(
            REVISIONS, {"metadata": metadata, "data": {"spec": {"template": foreign}}, "revision": 7}
        )
    await bed.deploy(daemonset(updateStrategy=limits(selector={"matchLabels": {"track": "canary"}})), nodes=2)
    await bed.runs_on("node-0", "node-1", image=V1)
    adopted = [one for one in await bed.revisions() if one["metadata"]["name"].startswith("left")]
    assert [controller_of(one)["name"] for one in adopted] == ["agent"] * 2, "it is history all the same"

    await bed.controller.stop()
    for pod in (await bed.pods()).values():
        await bed.api.delete(PODS, pod["metadata"]["name"])
    bed.controller.start()
    await bed.runs_on("node-0", "node-1", image=V1)
