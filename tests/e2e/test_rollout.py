"""A rollout from the first canary to the last node by nothing but kubectl, judged at every event of a pod."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.beds.api import Object
from tests.beds.installed.witness import Witness, witnessing
from tests.beds.installed.workspace import Workspace, sample
from tests.beds.nodes import INSTANT, Behaviour
from tests.beds.pods import is_live, node_of

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
