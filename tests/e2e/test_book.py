"""The book's chapter on DaemonSets (listings 16.1 to 16.4), typed into a terminal."""

from __future__ import annotations

import re
from datetime import datetime

import pytest

from tests.beds.api import DAEMONSETS, EVENTS, Object
from tests.beds.installed.witness import witnessing
from tests.beds.installed.workspace import Workspace, sample

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("controller")]

WORKERS = ("kind-worker", "kind-worker2")
MASTER = "kind-control-plane"
MASTER_TAINT = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}


async def start_kind(bed: Workspace) -> None:
    """The three nodes of the book's cluster."""
    await bed.nodes.add(MASTER, taints=[MASTER_TAINT])
    await bed.workers(*WORKERS)


def words(table: str) -> list[list[str]]:
    """The cells of a table that kubectl prints, which are two or more spaces apart."""
    return [re.split(r"\s{2,}", line.strip()) for line in table.splitlines()]


def uid(pod: Object) -> str:
    return str(pod["metadata"]["uid"])


async def test_listing_1_runs_a_pod_on_each_worker_and_none_on_the_tainted_node(bed: Workspace) -> None:
    await start_kind(bed)
    assert await bed.apply_sample("ds.demo.yaml") == "daemonset.apps.kruise.io/demo created\n"
    pods = await bed.serves(*WORKERS)
    await bed.settled(2)
    header, row = words(await bed.kubectl("get", "ads"))
    columns = ["NAME", "DESIRED", "CURRENT", "READY", "UP-TO-DATE", "AVAILABLE", "PHASE", "NODE SELECTOR", "AGE"]
    assert header == columns
    assert row[:8] == ["demo", "2", "2", "2", "2", "2", "Healthy", "<none>"]
    header, row = words(await bed.kubectl("get", "ads", "-o", "wide"))
    assert header[9:] == ["TARGET", "DONE", "PARTITION", "REVISION", "CONTAINERS", "IMAGES", "SELECTOR"]
    (revision,) = {pod["metadata"]["labels"]["controller-revision-hash"] for pod in pods.values()}
    assert row[9:] == ["2", "2", "0", revision, "demo", "busybox", "app=demo"]
    table = words(await bed.kubectl("get", "pods", "-l", "app=demo", "-o", "wide"))
    assert {row[table[0].index("NODE")] for row in table[1:]} == set(WORKERS)
    assert {row[2] for row in table[1:]} == {"Running"}
    for pod in pods.values():
        assert re.fullmatch(r"demo-[a-z0-9]{5,8}", pod["metadata"]["name"])


async def test_describe_tells_the_status_and_which_pods_were_created(bed: Workspace) -> None:
    await start_kind(bed)
    await bed.apply_sample("ds.demo.yaml")
    pods = await bed.serves(*WORKERS)
    await bed.settled(2)
    names = {pod["metadata"]["name"] for pod in pods.values()}
    await bed.api.wait_for(EVENTS, lambda events: len(_created(events)) == 2, "an event for each created pod")
    text = await bed.kubectl("describe", "ads", "demo")
    for name in names:
        assert re.search(rf"Normal +SuccessfulCreate +\S+ +daemonset-controller +Created pod: {name}", text)
    assert re.search(r"Number Available: +2", text)


def _created(events: list[Object]) -> list[Object]:
    return [event for event in events if event["reason"] == "SuccessfulCreate"]


async def test_a_daemon_pod_reads_as_the_book_shows_it(bed: Workspace) -> None:
    await bed.workers("kind-worker")
    await bed.apply_sample("ds.demo.yaml")
    pod = (await bed.serves("kind-worker"))["kind-worker"]
    status = await bed.settled(1)
    owner = await bed.api.get(DAEMONSETS, "demo")
    assert pod["metadata"]["generateName"] == "demo-"
    assert pod["metadata"]["labels"]["app"] == "demo"
    assert pod["metadata"]["labels"]["controller-revision-hash"] == status["updateRevision"]
    assert pod["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "apps.kruise.io/v1beta1",
            "kind": "DaemonSet",
            "name": "demo",
            "uid": owner["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    aimed = {"key": "metadata.name", "operator": "In", "values": ["kind-worker"]}
    assert required["nodeSelectorTerms"] == [{"matchFields": [aimed]}]


async def test_listing_2_follows_the_labels_of_nodes(bed: Workspace) -> None:
    await start_kind(bed)
    await bed.apply_sample("ds.demo.yaml")
    await bed.serves(*WORKERS)
    await bed.apply_sample("ds.demo.nodeSelector.yaml")
    await bed.serves()
    await bed.settled(0)
    row = words(await bed.kubectl("get", "ads"))[1]
    assert row[:6] == ["demo", "0", "0", "0", "0", "0"]
    assert row[7] == "gpu=cuda"
    await bed.kubectl("label", "node", "kind-worker2", "gpu=cuda")
    await bed.serves("kind-worker2")
    await bed.settled(1)
    await bed.kubectl("label", "node", "kind-worker2", "gpu-")
    await bed.serves()
    await bed.settled(0)
    patch = '[{"op": "remove", "path": "/spec/template/spec/nodeSelector"}]'
    said = await bed.kubectl("patch", "ads", "demo", "--type=json", f"-p={patch}")
    assert said == "daemonset.apps.kruise.io/demo patched\n"
    await bed.serves(*WORKERS)
    await bed.settled(2)


async def test_listing_3_updates_one_node_at_a_time_and_watches_each_new_pod(bed: Workspace) -> None:
    await bed.workers(*WORKERS)
    bed.clocks.slow = 600.0  # the first pods have been ready for ten minutes
    await bed.apply_sample("ds.demo.yaml")
    before = await bed.serves(*WORKERS)
    await bed.settled(2)
    bed.clocks.slow = 0.0
    rolling = sample("ds.demo.v2.rollingUpdate.yaml")
    assert rolling["spec"]["minReadySeconds"] == 30
    rolling["spec"]["minReadySeconds"] = 3  # in a shorter day
    async with witnessing(bed.api) as witness:
        await witness.until(lambda: len(witness.ready) == 2, "both pods seen")
        witness.floor = 1
        await bed.apply(rolling)
        await witness.until(lambda: bool(witness.retired), "the first pod has to go")
        assert next(iter(witness.retired.values())) == "kind-worker2", "node names descending"
        pods = await bed.serves(*WORKERS, labels={"ver": "v2"})
        await bed.settled(2)
    assert not {uid(pod) for pod in before.values()} & {uid(pod) for pod in pods.values()}
    first, second = (pods[node]["status"]["startTime"] for node in ("kind-worker2", "kind-worker"))
    apart = (datetime.fromisoformat(second) - datetime.fromisoformat(first)).total_seconds()
    assert apart >= 3, "the second waits until the first was ready for minReadySeconds"


async def test_listing_4_leaves_pods_alone_until_somebody_deletes_them(bed: Workspace) -> None:
    await bed.workers(*WORKERS)
    await bed.apply_sample("ds.demo.yaml")
    before = await bed.serves(*WORKERS)
    await bed.apply_sample("ds.demo.v3.onDelete.yaml")
    await bed.status(desiredNumberScheduled=2, numberAvailable=2, updatedNumberScheduled=0)
    assert words(await bed.kubectl("get", "ads"))[1][:6] == ["demo", "2", "2", "2", "0", "2"]
    await bed.kubectl("delete", "pod", before["kind-worker2"]["metadata"]["name"])
    await bed.status(numberAvailable=2, updatedNumberScheduled=1)
    after = await bed.serves(*WORKERS)
    assert after["kind-worker2"]["metadata"]["labels"]["ver"] == "v3"
    assert uid(after["kind-worker"]) == uid(before["kind-worker"]), "nobody touched kind-worker"
    await bed.kubectl("delete", "pod", before["kind-worker"]["metadata"]["name"])
    await bed.settled(2)
