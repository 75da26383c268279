"""Names that are taken, namespaces that end, and a kind that goes."""

from __future__ import annotations

import asyncio

from tests.beds.api import DAEMONSETS, NAMESPACES, PODS
from tests.beds.controller.bed import Bed, uids
from tests.beds.controller.metrics import metric
from tests.beds.controller.opening import simulated
from tests.beds.objects import V1, V2, bare_pod, controller_of, daemonset, owner
from tests.beds.simulator import kinds
from tests.system.both import both_beds
from tests.system.quota import full_quota


@both_beds
async def test_a_quota_that_is_just_enough_does_not_hold_up_an_update(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(), nodes=3)
    async with full_quota(bed, 3):
        await bed.update(V2)
        await bed.runs_on(*nodes, image=V2)


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


async def test_too_many_pods_are_too_few_on_some_nodes(bed: Bed) -> None:
    """0, 1, 2 and 5 pods on four nodes, one node without, and two pods that are ours with foreign labels."""
    await bed.deploy(daemonset(pod={"nodeSelector": {"wanted": "yes"}}), nodes=4)
    one = await bed.daemonset()
    await bed.controller.stop()
    (revision,) = await bed.revisions()
    hash_ = {"controller-revision-hash": revision["metadata"]["labels"]["controller-revision-hash"]}
    for node, count in (("node-1", 1), ("node-2", 2), ("node-3", 5)):
        for number in range(count):
            pod = bare_pod(f"{node}-pod-{number}", node, labels={"app": "agent", **hash_})
            pod["metadata"]["ownerReferences"] = [owner(one)]
            await bed.api.create(PODS, pod)
    for number in range(2):
        pod = bare_pod(f"foreign-{number}", "node-0", labels={"app": "other"})
        pod["metadata"]["ownerReferences"] = [owner(one)]
        await bed.api.create(PODS, pod)
    for node in ("node-0", "node-1", "node-2", "node-3"):
        await bed.label_node(node, wanted="yes")
    bed.controller.start()
    await bed.until(PODS, lambda found: "" if len(found) == 6 else f"{len(found)} pods", "four of ours, two foreign")
    await bed.idle()
    pods = await bed.runs_on("node-0", "node-1", "node-2", "node-3")
    assert bed.journal.created == ["node-0"]
    assert sorted(bed.journal.deleted) == ["node-2"] + ["node-3"] * 4
    kept = {pods[node]["metadata"]["name"] for node in ("node-1", "node-2", "node-3")}
    assert "node-1-pod-0" in kept
    foreign = [await bed.api.get(PODS, f"foreign-{number}") for number in range(2)]
    assert [controller_of(pod) for pod in foreign] == [{}, {}], "released"


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
