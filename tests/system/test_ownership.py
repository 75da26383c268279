"""Owners, revisions and names: adoption, release, the history of the template, and what others have taken."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from tests.beds.api import DAEMONSETS, NAMESPACES, PODS, REVISIONS, Api, Object
from tests.beds.controller.bed import Bed, uids
from tests.beds.controller.metrics import metric
from tests.beds.controller.opening import simulated
from tests.beds.nodes import Behaviour
from tests.beds.objects import (
    V1,
    V2,
    V3,
    V4,
    bare_pod,
    condition,
    controller_of,
    daemonset,
    garbage_collector_knows,
    names,
    on_delete,
    owner,
)
from tests.beds.simulator import kinds
from tests.beds.simulator.cluster import Attempt
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


def numbers(count: int, *wanted: int) -> Callable[[list[Object]], str]:
    def missing(found: list[Object]) -> str:
        there = sorted(one["revision"] for one in found)
        return "" if len(there) == count and (not wanted or there == list(wanted)) else f"revisions {there}"

    return missing


@both_beds
async def test_history_is_trimmed_to_its_limit_but_not_what_is_needed(bed: Bed) -> None:
    await bed.deploy(on_delete(revisionHistoryLimit=2), nodes=2)
    for number in range(2, 7):
        await bed.set_image(f"registry.example/agent:v{number}")
        await bed.seen()
        if number == 2:
            await bed.api.delete(PODS, (await bed.pods())["node-1"]["metadata"]["name"])
            await bed.runs_on("node-0", "node-1")
        if number == 3:
            await bed.api.delete(PODS, (await bed.pods())["node-0"]["metadata"]["name"])
            await bed.runs_on("node-0", "node-1")
    await bed.until(REVISIONS, numbers(4, 1, 2, 3, 6), "the stable one, those of pods, and the current one")
    await bed.edit({"revisionHistoryLimit": 0})
    await bed.seen()
    await bed.idle()
    assert [one["revision"] for one in await bed.revisions()] == [1, 2, 3, 6]
    deleted = [write.name for write in bed.journal.of("controllerrevisions.apps", "delete")]
    assert len(deleted) == len(set(deleted)) == 2


@both_beds
async def test_a_taken_name_counts_a_collision_and_the_update_goes_on(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(), nodes=2)
    one = await bed.daemonset()
    (first,) = await bed.revisions()
    await bed.update(V2)
    wanted = (await bed.revisions())[-1]["metadata"]["name"]

    # the same again for a twin of this DaemonSet, whose second revision's name somebody has taken
    await bed.controller.stop()
    await bed.set_image(V1)
    for revision in await bed.revisions():
        await bed.api.delete(REVISIONS, revision["metadata"]["name"])
    await bed.api.create(
        REVISIONS,
        {
            "metadata": {"name": wanted, "labels": {"app": "somebody"}},
            "data": {"spec": {"template": {"spec": {"containers": []}, "$patch": "replace"}}},
            "revision": 1,
        },
    )
    bed.controller.start()
    await bed.settled()
    await bed.idle()
    bed.journal.clear()
    await bed.set_image(V2)
    await bed.status(collisions=1, updated=2, available=2)
    await bed.runs_on(*nodes, image=V2)
    assert one["status"].get("collisionCount") is None
    current = (await bed.daemonset())["status"]["updateRevision"]
    assert current not in (wanted.removeprefix("agent-"), first["metadata"]["labels"][HASH])
    assert not controller_of(await bed.api.get(REVISIONS, wanted)), "what is not ours is left alone"
    refused = bed.journal.of("controllerrevisions.apps", failed=True)
    assert [(write.name, write.status) for write in refused if write.status == 409] == [(wanted, 409)]


async def test_of_several_equal_revisions_the_newest_stays_without_restarts(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(), nodes=2)
    before = uids(await bed.pods())
    (first,) = await bed.revisions()
    await bed.controller.stop()
    for number in (2, 3):
        labels = {**first["metadata"]["labels"], HASH: f"twin{number}"}
        references = first["metadata"]["ownerReferences"]
        metadata = {"name": f"agent-twin{number}", "labels": labels, "ownerReferences": references}
        await bed.api.create(REVISIONS, {"metadata": metadata, "data": first["data"], "revision": number})
    bed.controller.start()
    await bed.until(REVISIONS, numbers(1, 3), "twin3 alone")
    pods = await bed.runs_on(*nodes)
    assert uids(pods) == before
    assert {pod["metadata"]["labels"][HASH] for pod in pods.values()} == {"twin3"}
    await bed.idle()
    order = [(write.verb, write.resource.partition(".")[0]) for write in bed.journal.writes]
    first_delete = order.index(("delete", "controllerrevisions"))
    assert [step for step in order[first_delete:] if step == ("patch", "pods")] == [], "relabelled before"


@both_beds
async def test_the_stable_revision_outlasts_the_controller_and_is_never_guessed(bed: Bed) -> None:
    await bed.deploy(daemonset(revisionHistoryLimit=0), nodes=3)
    (first,) = await bed.revisions()
    good = first["metadata"]["labels"][HASH]

    async def stable() -> str | None:
        found: str | None = (await bed.daemonset())["status"]["rollout"].get("stableRevision")
        return found

    async def becomes_stable(wanted: str) -> None:
        def missing(found: list[Object]) -> str:
            known = found[0]["status"]["rollout"].get("stableRevision")
            return "" if known == wanted else f"it is {known}"

        await bed.until(DAEMONSETS, missing, f"{wanted} is stable")

    async def rolled_out(image: str, partition: int) -> str | None:
        """The stable revision after that, while the partition keeps so many nodes old."""
        await bed.edit({"updateStrategy": {"rollingUpdate": {"partition": partition}}})
        await bed.set_image(image)
        await bed.seen()
        await bed.status(desired=3, updated=3 - partition, available=3)
        await bed.idle()
        return await stable()

    await becomes_stable(good)
    assert await rolled_out(V2, 2) == good
    await bed.controller.kill()
    bed.controller.start()
    assert await rolled_out(V3, 1) == good
    await bed.controller.stop()
    await bed.api.patch(DAEMONSETS, "agent", {"status": {"rollout": None}}, sub="status")
    bed.controller.start()
    assert await rolled_out(V4, 1) is None, "it was lost, and nothing is complete"
    await rolled_out(V2, 0)
    newest = (await bed.daemonset())["status"]["updateRevision"]
    assert newest != good
    await becomes_stable(newest)


@both_beds
async def test_a_pod_name_that_somebody_else_took_is_left_to_him(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(), nodes=2)
    await bed.controller.kill()
    name = (await bed.pods())["node-1"]["metadata"]["name"]
    await bed.api.delete(PODS, name, options={"gracePeriodSeconds": 0})
    await bed.api.create(PODS, bare_pod(name, "node-1", labels={"app": "somebody"}))
    bed.controller.start()
    pods = await bed.runs_on(*nodes)
    assert pods["node-1"]["metadata"]["name"] != name
    assert not controller_of(await bed.api.get(PODS, name))
    await bed.settled()
    assert len([write for write in bed.journal.of("pods", "create", failed=True) if write.status == 409]) <= 1


@both_beds
async def test_a_namespace_that_ends_is_left_in_peace(bed: Bed) -> None:
    await bed.add_nodes(3)
    held = daemonset()
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await bed.deploy(held)
    await bed.api.delete(NAMESPACES, bed.api.namespace)
    await bed.until(PODS, lambda found: f"{len(found)} pods" if found else "", "no pods")
    await bed.idle(1.0)  # no retry follows: only an event could bring another attempt
    tried = {write.status for write in bed.journal.of("pods", failed=True)}
    assert tried <= {403}, "the pods may go before the DaemonSet does"
    await bed.api.patch(DAEMONSETS, "agent", {"metadata": {"finalizers": None}})


async def test_two_daemonsets_with_one_selector_do_not_touch_each_others_pods(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(), nodes=2)
    second = daemonset()
    second["metadata"]["name"] = "second"
    await bed.deploy(second)
    first, other = uids(await bed.runs_on(*nodes)), uids(await bed.runs_on(*nodes, name="second"))
    await bed.set_image(V2, "second")
    await bed.settled("second")
    assert uids(await bed.runs_on(*nodes, image=V1)) == first
    changed = uids(await bed.runs_on(*nodes, name="second", image=V2))
    assert set(changed.values()).isdisjoint(other.values())
    await bed.api.create(PODS, bare_pod("orphan", "node-0"))
    await bed.idle()
    assert len([write for write in bed.journal.of("pods", "patch") if write.name == "orphan"]) == 1, "one has it"


LATENCY = 0.02


async def test_no_pod_is_made_for_daemonsets_that_went_with_their_kind() -> None:
    async with simulated(latency=LATENCY) as bed:
        bed.patience = 600.0
        nodes = await bed.deploy(daemonset(), nodes=4)
        link, store = bed.simulator.link, bed.simulator.cluster.store
        link.up = False
        link.drop_watches()
        await asyncio.sleep(5)
        store.remove_kind(kinds.DAEMONSETS)
        link.up = True
        await asyncio.sleep(10)
        for pod in await bed.api.list(PODS):  # the garbage collector's work
            await bed.api.delete(PODS, pod["metadata"]["name"])
        await asyncio.sleep(60)
        assert bed.journal.created == []
        assert await bed.api.list(PODS) == []
        assert metric(bed.controller, "kruise_ds_informer_objects", resource="daemonsets") == 0

        store.add_kind(kinds.DAEMONSETS)
        await bed.api.create(DAEMONSETS, daemonset())
        await bed.runs_on(*nodes)
