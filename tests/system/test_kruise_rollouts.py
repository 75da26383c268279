"""What kruise-rollouts needs of a DaemonSet, with its writes made by hand: docs/kruise-rollouts.md says for whom.

By its source (v0.6.2) it reads v1alpha1 only. Replicas, updated and ready pods are numbers of the status, of which it
believes none before `observedGeneration` is the generation. The revision is `status.daemonSetHash`, and the label
`controller-revision-hash` says which pods are of it. It writes below `rollingUpdate` and does not ask whether that is
there: tests/manifests/test_accepted.py shows that it always is. tests/e2e/test_kruise_rollouts.py runs the manager.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.beds.api import DAEMONSETS_ALPHA, PODS, Object
from tests.beds.controller.bed import Bed
from tests.beds.controller.waves import HASH, both, layout, lose, wave
from tests.beds.objects import V1, V2, daemonset, is_ready, node_of

NOTHING_YET = 32767
"""The partition with which its webhook holds a new template."""


async def written(bed: Bed, **rolling: Any) -> None:
    """As its batches do: a merge patch of v1alpha1, with `partition: null` at the end."""
    await bed.api.patch(DAEMONSETS_ALPHA, "agent", {"spec": {"updateStrategy": {"rollingUpdate": rolling}}})


async def seen_by_it(bed: Bed) -> dict[str, int]:
    """What it works out: the nodes, the pods of the newest revision, and those of them that are ready."""
    await bed.seen()
    one = await bed.api.get(DAEMONSETS_ALPHA, "agent")
    assert one["apiVersion"] == "apps.kruise.io/v1alpha1"
    status, partition = one["status"], one["spec"]["updateStrategy"]["rollingUpdate"].get("partition", 0)
    assert status["observedGeneration"] == one["metadata"]["generation"]
    assert isinstance(partition, int), "it reads an int32"
    revision = status["daemonSetHash"].rpartition("-")[2]
    of_it = [pod for pod in await bed.api.list(PODS) if pod["metadata"]["labels"][HASH].endswith(revision)]
    assert status["updatedNumberScheduled"] == len(of_it)
    return {
        "nodes": status["desiredNumberScheduled"],
        "updated": len(of_it),
        "ready": len([pod for pod in of_it if is_ready(pod)]),
        "partition": partition,
    }


async def held(bed: Bed, image: str) -> None:
    """A new template as its webhook stores it: with the partition, in one write."""
    containers = [{"name": "agent", "image": image}]
    rolling = {"rollingUpdate": {"partition": NOTHING_YET}}
    spec = {"template": {"spec": {"containers": containers}}, "updateStrategy": rolling}
    await bed.api.patch(DAEMONSETS_ALPHA, "agent", {"spec": spec})


@pytest.mark.parametrize(
    "rolling",
    [{"maxUnavailable": 4}, {"maxSurge": 4}, {"maxUnavailable": 4, "rollingUpdateType": "InPlaceIfPossible"}],
    ids=lambda rolling: "+".join(rolling),
)
async def test_its_writes_move_as_many_nodes_as_it_counts(bed: Bed, rolling: Object) -> None:
    await bed.deploy(daemonset(rolling=rolling), nodes=4)
    assert await seen_by_it(bed) == {"nodes": 4, "updated": 4, "ready": 4, "partition": 0}
    await held(bed, V2)
    await bed.phase("Held")
    assert await seen_by_it(bed) == {"nodes": 4, "updated": 0, "ready": 0, "partition": NOTHING_YET}
    for step, partition in ((0, 4), (1, 3), (2, 2)):
        await written(bed, paused=False, partition=partition)
        await bed.status(updated=step, available=4)
        assert await seen_by_it(bed) == {"nodes": 4, "updated": step, "ready": step, "partition": partition}
    await written(bed, paused=False, partition=None)
    await bed.settled()
    assert await seen_by_it(bed) == {"nodes": 4, "updated": 4, "ready": 4, "partition": 0}
    assert await layout(bed) == "v2 v2 v2 v2"


async def test_its_labels_on_pods_change_nothing(bed: Bed) -> None:
    """It marks those of each batch, also where no more than the labels of a Rollout are changed."""
    await bed.deploy(daemonset(), nodes=3)
    before = await bed.pods()
    batch = {"rollouts.kruise.io/rollout-id": "agent", "rollouts.kruise.io/rollout-batch-id": "1"}
    for pod in before.values():
        await bed.api.patch(PODS, pod["metadata"]["name"], {"metadata": {"labels": batch}})
    await bed.idle()
    after = await bed.pods()
    assert {node_of(pod): pod["metadata"]["uid"] for pod in after.values()} == {
        node: pod["metadata"]["uid"] for node, pod in before.items()
    }
    assert all(batch.items() <= pod["metadata"]["labels"].items() for pod in after.values())


async def test_a_rollback_under_its_partition_leaves_the_rest_to_its_last_step(bed: Bed) -> None:
    """The nodes that never left the wanted revision are more than each of its steps asks for, but for the last."""
    await bed.deploy(daemonset(rolling={"maxUnavailable": 4}), nodes=4)
    await held(bed, V2)
    await written(bed, partition=3)
    await bed.status(updated=1, available=4)
    bed.journal.clear()
    await held(bed, V1)
    await wave(bed, "")
    for partition in (4, 3, 1):
        await written(bed, partition=partition)
        await wave(bed, "")
        assert (await seen_by_it(bed))["updated"] == 3
    await lose(bed, 0)
    await wave(bed, "+0")
    await written(bed, partition=None)
    await wave(bed, both(3))
    assert await layout(bed) == "v1 v1 v1 v1"
