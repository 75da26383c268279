"""Rollouts by nothing but kubectl: the listings of the book, and canaries, partition and pause in one story."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import pytest

from tests.beds.api import EVENTS, Object
from tests.beds.installed.witness import Witness, witnessing
from tests.beds.installed.workspace import Workspace, sample
from tests.beds.nodes import INSTANT, Behaviour
from tests.beds.objects import is_live, node_of

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("controller")]

NODES = tuple(f"roll-{number}" for number in range(10))
CANARIES = {"roll-3", "roll-6"}
"""In the middle: no order of names finds them by chance."""
HELD_UP = Behaviour(ready=None)
"""New pods run and are not ready; those that are ready stay so."""


@asynccontextmanager
async def deployed(bed: Workspace, **rolling: Any) -> AsyncIterator[Witness]:
    """Version v1 on all nodes, and a witness who has seen it."""
    await bed.workers(*NODES)
    await bed.kubectl("label", "nodes", *sorted(CANARIES), "canary=yes")
    demo = sample("ds.demo.yaml")
    demo["spec"]["updateStrategy"] = {"rollingUpdate": rolling}
    demo["spec"]["template"]["metadata"]["labels"]["ver"] = "v1"
    async with witnessing(bed.api) as witness:
        await bed.apply(demo)
        await bed.settled(len(NODES))
        await witness.until(lambda: len(witness.ready) == len(NODES), "all first pods seen")
        yield witness


async def edit(bed: Workspace, version: str = "", **rolling: Any) -> None:
    """`kubectl patch` of the template's label `ver` and of fields of rollingUpdate."""
    spec: Object = {"updateStrategy": {"rollingUpdate": rolling}}
    if version:
        spec["template"] = {"metadata": {"labels": {"ver": version}}}
    await bed.kubectl("patch", "ads", "demo", "--type=merge", f"-p={json.dumps({'spec': spec})}")


def nodes_with(witness: Witness, version: str) -> set[str]:
    """The nodes that have a live pod of this version."""
    live = [pod for pod in witness.now.values() if is_live(pod)]
    return {node_of(pod) for pod in live if pod["metadata"]["labels"]["ver"] == version}


async def stands_at(bed: Workspace, witness: Witness, version: str, nodes: set[str], reason: str) -> None:
    """Wait until exactly these nodes have the version, all are served, and the status gives this reason for it."""

    def is_so() -> bool:
        beyond = nodes_with(witness, version) - nodes
        assert not beyond, f"{version} came to {', '.join(sorted(beyond))} too"
        return nodes_with(witness, version) == nodes and witness.ready == set(NODES)

    await witness.until(is_so, f"all served, and {version} on {', '.join(sorted(nodes))}")
    await bed.progressing(reason)
    assert is_so(), "and there it stops"
    await bed.status(updatedNumberScheduled=len(nodes), numberAvailable=len(NODES))
    assert is_so(), "and there it stays"


async def test_canary_nodes_then_partition_walked_down_then_paused_then_resumed(bed: Workspace) -> None:
    async with deployed(bed, maxUnavailable=2) as witness:
        witness.floor = len(NODES) - 2
        await edit(bed, "v2", selector={"matchLabels": {"canary": "yes"}})
        await stands_at(bed, witness, "v2", CANARIES, "SelectorReached")
        await edit(bed, selector=None, partition=6)
        await stands_at(bed, witness, "v2", {*CANARIES, "roll-9", "roll-8"}, "PartitionReached")
        await edit(bed, partition="30%")
        seven = {*NODES} - {"roll-0", "roll-1", "roll-2"}
        await stands_at(bed, witness, "v2", seven, "PartitionReached")
        assert Counter(witness.retired.values()) == Counter(seven), "each of them once, and no other"

        bed.nodes.behave("*", HELD_UP)
        await edit(bed, partition=0)
        await witness.until(lambda: len(nodes_with(witness, "v2")) == 9, "two new pods in flight")
        await edit(bed, paused=True)
        await bed.progressing("Paused")
        bed.nodes.behave("*", INSTANT)
        nine = {*NODES} - {"roll-0"}
        await stands_at(bed, witness, "v2", nine, "Paused")
        await edit(bed, "v3")
        await bed.status(updatedNumberScheduled=0, numberAvailable=len(NODES))
        assert Counter(witness.retired.values()) == Counter(nine), "an edit while paused replaces nothing"

        await edit(bed, paused=False)
        await stands_at(bed, witness, "v3", {*NODES}, "RolloutComplete")
        assert Counter(witness.retired.values()) == Counter([*nine, *NODES]), "no pod went that had not to"


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
