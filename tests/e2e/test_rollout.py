"""Rollouts by nothing but kubectl: the listings of the book."""

from __future__ import annotations

import re
from datetime import datetime

import pytest

from tests.beds.api import EVENTS
from tests.beds.installed.witness import witnessing
from tests.beds.installed.workspace import Workspace, sample

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("controller")]


def cells(table: str) -> list[list[str]]:
    """Of a table that kubectl prints, where columns are two or more spaces apart."""
    return [re.split(r"\s{2,}", line.strip()) for line in table.splitlines()]


async def test_the_listings_of_the_book_do_what_it_says_of_them(bed: Workspace) -> None:
    """Its chapter on DaemonSets, listings 16.1 to 16.4."""
    first, second = workers = ("kind-worker", "kind-worker2")
    taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    await bed.nodes.add("kind-control-plane", taints=[taint])
    await bed.workers(*workers)
    bed.clocks.slow = 600.0  # the first pods have been ready for ten minutes

    assert await bed.apply_sample("ds.demo.yaml") == "daemonset.apps.kruise.io/demo created\n"
    pods = await bed.serves(*workers)
    await bed.settled(2)
    header, row = cells(await bed.kubectl("get", "ads"))
    columns = ["NAME", "DESIRED", "CURRENT", "READY", "UP-TO-DATE", "AVAILABLE", "PHASE", "NODE SELECTOR", "AGE"]
    assert header == columns
    assert row[:8] == ["demo", "2", "2", "2", "2", "2", "Healthy", "<none>"]
    created = {f"Created pod: {pod['metadata']['name']}" for pod in pods.values()}
    await bed.api.wait_for(EVENTS, lambda told: created <= {one["message"] for one in told}, "an event for each pod")
    described = await bed.kubectl("describe", "ads", "demo")
    assert re.search(r"Number Available: +2", described)
    assert all(one in described for one in created), described

    await bed.apply_sample("ds.demo.nodeSelector.yaml")
    await bed.serves()
    await bed.settled(0)
    assert cells(await bed.kubectl("get", "ads"))[1][7] == "gpu=cuda"
    await bed.kubectl("label", "node", second, "gpu=cuda")
    await bed.serves(second)
    patch = '[{"op": "remove", "path": "/spec/template/spec/nodeSelector"}]'
    await bed.kubectl("patch", "ads", "demo", "--type=json", f"-p={patch}")
    await bed.serves(*workers)
    await bed.settled(2)

    bed.clocks.slow = 0.0
    rolling = sample("ds.demo.v2.rollingUpdate.yaml")
    assert rolling["spec"]["minReadySeconds"] == 30
    rolling["spec"]["minReadySeconds"] = 3  # in a shorter day
    async with witnessing(bed.api) as witness:
        await witness.until(lambda: len(witness.ready) == 2, "both pods seen")
        witness.floor = 1
        await bed.apply(rolling)
        await bed.settled(2)
        assert [*witness.retired.values()] == [second, first], "node names descending"
        pods = await bed.serves(*workers, labels={"ver": "v2"})
    began = [datetime.fromisoformat(pods[node]["status"]["startTime"]) for node in (second, first)]
    assert (began[1] - began[0]).total_seconds() >= 3, "the first was ready for minReadySeconds before"

    await bed.apply_sample("ds.demo.v3.onDelete.yaml")
    await bed.status(numberAvailable=2, updatedNumberScheduled=0)
    await bed.kubectl("delete", "pod", pods[second]["metadata"]["name"])
    await bed.status(numberAvailable=2, updatedNumberScheduled=1)
    after = await bed.serves(*workers)
    assert after[second]["metadata"]["labels"]["ver"] == "v3"
    assert after[first]["metadata"]["uid"] == pods[first]["metadata"]["uid"], f"{first} was not touched"
