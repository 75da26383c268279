"""Owners, revisions and names: adoption, release, the history of the template, and what others have taken."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from tests.beds.api import DAEMONSETS, NAMESPACES, PODS, REVISIONS, Api, Object
from tests.beds.controller.bed import Bed, uids
from tests.beds.controller.opening import simulated
from tests.beds.nodes import Behaviour
from tests.beds.objects import (
    V1,
    V2,
    V3,
    bare_pod,
    controller_of,
    daemonset,
    garbage_collector_knows,
    names,
    owner,
)
from tests.beds.simulator.cluster import Attempt
from tests.beds.simulator.kinds import PODS as POD_KIND
from tests.beds.simulator.refusal import forbidden
from tests.beds.virtual_time import now
from tests.system.both import both_beds
from tests.system.in_place import in_place, is_open

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
