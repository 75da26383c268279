"""What the status says and who is told."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.beds.api import DAEMONSETS, DAEMONSETS_ALPHA, PODS, Object
from tests.beds.controller.bed import Bed
from tests.beds.nodes import Behaviour
from tests.beds.objects import V2, daemonset, on_delete
from tests.system.both import both_beds
from tests.system.quota import lift_limit, limit_pods


@both_beds
async def test_the_status_counts_nodes(bed: Bed) -> None:
    """n1 new and ready, n2 old and ready, n3 new and not ready, n4 none, n5 not eligible with a pod that is left."""
    for name in ("n1", "n2", "n3", "n4", "n5"):
        await bed.nodes.add(name)
    await bed.deploy(on_delete())
    await bed.set_image(V2)
    await bed.seen()
    for name in ("n1", "n3"):
        await bed.api.delete(PODS, (await bed.pods())[name]["metadata"]["name"])
    await bed.runs_on("n1", "n2", "n3", "n4", "n5")
    await bed.controller.stop()
    bed.nodes.behave("*", Behaviour(ready=None))
    await bed.nodes.ready((await bed.pods())["n3"], value=False)
    leftover = (await bed.pods())["n5"]["metadata"]["name"]
    await bed.api.patch(PODS, leftover, {"metadata": {"finalizers": ["example.com/hold"]}})
    await bed.taint("n5", {"key": "reserved", "effect": "NoExecute"})
    await bed.taint("n4", {"key": "reserved", "effect": "NoSchedule"})
    await bed.api.delete(PODS, (await bed.pods())["n4"]["metadata"]["name"], options={"gracePeriodSeconds": 0})
    bed.controller.start()
    await bed.status(desired=3, current=3, ready=2, available=2, unavailable=1, updated=2, misscheduled=1)
    await bed.condition("Progressing", "OnDelete")
    await bed.condition("Available", "PodsUnavailable")
    alpha = await bed.api.get(DAEMONSETS_ALPHA, "agent")
    assert alpha["status"] == (await bed.daemonset())["status"]
    assert alpha["status"]["updateRevision"] == alpha["status"]["daemonSetHash"]
    await bed.api.patch(PODS, leftover, {"metadata": {"finalizers": None}})


async def test_the_first_status_has_every_count_and_the_columns_of_kubectl(bed: Bed) -> None:
    await bed.deploy(daemonset(pod={"nodeSelector": {"disk": "ssd", "zone": "a"}}), nodes=1)
    one = await bed.daemonset()
    counts = {name: value for name, value in one["status"].items() if isinstance(value, int)}
    assert counts == {
        "observedGeneration": 1,
        "desiredNumberScheduled": 0,
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "numberReady": 0,
        "updatedNumberScheduled": 0,
        "numberAvailable": 0,
        "numberUnavailable": 0,
    }
    assert one["status"]["columns"] == {
        "nodeSelector": "disk=ssd,zone=a",
        "containers": "agent",
        "images": "registry.example/agent:v1",
        "selector": "app=agent",
    }


@pytest.mark.parametrize("make", [daemonset, on_delete])
async def test_when_some_creates_are_refused_the_status_is_written_all_the_same(
    bed: Bed, make: Callable[..., Object]
) -> None:
    nodes = await bed.add_nodes(5)
    await limit_pods(bed, 2)
    await bed.api.create(DAEMONSETS, make())
    await bed.status(desired=5, current=2, ready=2, available=2, unavailable=3)
    degraded = await bed.condition("Degraded", "WritesFail")
    assert "exceeded quota" in degraded["message"]
    await bed.event("FailedCreate", "exceeded quota")
    assert len(await bed.pods()) == 2
    refused = [write for write in bed.journal.of("pods", "create", failed=True) if write.status == 403]
    assert len({write.node for write in refused}) < 3, "a refused batch is the last one"

    await lift_limit(bed)
    await bed.runs_on(*nodes)
    await bed.settled()
    await bed.condition("Degraded", "AsExpected")
