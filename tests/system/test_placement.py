"""Which nodes get a pod, and what happens to pods that end or are too many."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from tests.beds.api import DAEMONSETS, PODS, Object
from tests.beds.controller.bed import Bed, uids
from tests.beds.objects import V2, daemonset, labelled, on_delete, requires
from tests.system.both import both_beds

NO_SCHEDULE = {"key": "reserved", "effect": "NoSchedule"}

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
async def test_a_tainted_node_gets_its_pod_when_the_taint_goes(bed: Bed, make: Make) -> None:
    await bed.add_nodes(2)
    await bed.taint("node-1", NO_SCHEDULE)
    await bed.deploy(make())
    await bed.runs_on("node-0")
    await bed.status(desired=1, ready=1)
    await bed.taint("node-1")
    await bed.runs_on("node-0", "node-1")
    await bed.status(desired=2, ready=2)


@both_beds
async def test_a_vanished_node_takes_its_unbound_pod_and_leaves_its_bound_one(bed: Bed) -> None:
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
