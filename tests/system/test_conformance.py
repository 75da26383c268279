"""What the conformance suite asks of native DaemonSets."""

from __future__ import annotations

from tests.beds.api import DAEMONSETS, PODS, Object
from tests.beds.controller.bed import Bed, uids
from tests.beds.nodes import Behaviour
from tests.beds.objects import V1, V2, condition, daemonset, image_of
from tests.system.both import both_beds
from tests.system.replay import film

HASH = "controller-revision-hash"


def hashes(pods: dict[str, Object]) -> set[str]:
    return {pod["metadata"]["labels"][HASH] for pod in pods.values()}


@both_beds
async def test_every_node_gets_its_pod_and_a_deleted_one_is_replaced_there(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(), nodes=3)
    before = uids(await bed.runs_on(*nodes))
    await bed.status(desired=3, current=3, ready=3)

    await bed.api.delete(PODS, (await bed.pods())["node-1"]["metadata"]["name"])
    await bed.idle()
    after = uids(await bed.runs_on(*nodes))
    assert {node for node in nodes if before[node] != after[node]} == {"node-1"}
    assert bed.journal.created == ["node-1"]
    await bed.status(desired=3, current=3, ready=3, available=3)


@both_beds
async def test_pods_follow_the_labels_of_nodes_and_the_node_selector(bed: Bed) -> None:
    await bed.deploy(daemonset(pod={"nodeSelector": {"color": "blue"}}), nodes=3)
    assert await bed.pods() == {}
    await bed.status(desired=0, current=0)

    await bed.label_node("node-1", color="blue")
    await bed.runs_on("node-1")
    await bed.status(desired=1, current=1, ready=1)

    await bed.label_node("node-1", color="green")
    await bed.runs_on()
    await bed.status(desired=0, current=0, misscheduled=0)

    spec = {"template": {"spec": {"nodeSelector": {"color": "green"}}}, "updateStrategy": {"type": "RollingUpdate"}}
    await bed.edit(spec)
    await bed.runs_on("node-1")
    await bed.status(desired=1, current=1, ready=1)
    assert bed.journal.created == ["node-1", "node-1"]
    assert bed.journal.deleted == ["node-1"]


@both_beds
async def test_a_failed_pod_is_replaced_and_its_object_is_gone(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(), nodes=3)
    failed = (await bed.pods())["node-2"]
    await bed.nodes.fail(failed, reason="Evicted")
    await bed.event("FailedDaemonPod", failed["metadata"]["name"])
    await bed.status(desired=3, ready=3)
    after = await bed.runs_on(*nodes)
    assert after["node-2"]["metadata"]["uid"] != failed["metadata"]["uid"]
    assert await bed.api.find(PODS, failed["metadata"]["name"]) is None
    assert (bed.journal.deleted, bed.journal.created) == (["node-2"], ["node-2"])


@both_beds
async def test_a_rolling_update_keeps_all_but_one_node_served(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(), nodes=4)
    (first,) = await bed.revisions()
    assert first["revision"] == 1
    history = await film(bed)

    await bed.update(V2)
    pods = await bed.runs_on(*nodes, image=V2)
    first, second = await bed.revisions()
    assert (first["revision"], second["revision"]) == (1, 2)
    assert hashes(pods) == {second["metadata"]["labels"][HASH]}
    assert min(len(served) for served in await history.served()) == 3, "maxUnavailable is 1"
    assert await history.crowded() == []
    assert bed.journal.deleted == ["node-3", "node-2", "node-1", "node-0"]


@both_beds
async def test_going_back_in_the_middle_restarts_no_pod_that_was_still_old(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(), nodes=3)
    before = uids(await bed.pods())
    history = await film(bed)
    bed.nodes.behave("*", Behaviour(missing_images=("*:v2",)))
    await bed.set_image(V2)
    await bed.until(PODS, lambda found: "" if V2 in map(image_of, found) else "none", f"a pod of {V2}")
    await bed.idle()
    stuck = {node: image_of(pod) for node, pod in (await bed.pods()).items()}
    assert stuck == {"node-0": V1, "node-1": V1, "node-2": V2}

    await bed.update(V1)
    after = uids(await bed.runs_on(*nodes, image=V1))
    assert {node for node in nodes if after[node] == before[node]} == {"node-0", "node-1"}
    await bed.status(desired=3, current=3, ready=3)
    assert min(len(served) for served in await history.served()) == 2, "maxUnavailable is 1"


@both_beds
async def test_conditions_that_others_write_stay(bed: Bed) -> None:
    await bed.deploy(daemonset(), nodes=1)
    found = await bed.daemonset()
    theirs = {"type": "StatusUpdate", "status": "True", "reason": "E2E", "message": "Set from e2e test"}
    found["status"]["conditions"].append(theirs)
    await bed.api.replace(DAEMONSETS, found, sub="status")
    await bed.label_node("node-0", makes="no-difference")
    await bed.nodes.add("node-1")
    found = await bed.status(desired=2, ready=2)
    assert condition(found, "StatusUpdate") == theirs

    patched = {"type": "StatusPatched", "status": "True", "reason": "E2E", "message": "Set by merge patch"}
    await bed.api.patch(DAEMONSETS, "agent", {"status": {"conditions": [patched]}}, sub="status")
    await bed.condition("Available", "AllAvailable")
    found = await bed.daemonset()
    assert condition(found, "StatusPatched") == patched
    assert condition(found, "Progressing")["reason"] == "RolloutComplete", "ours are written again"
