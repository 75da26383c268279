"""Rollouts that the controller carries out step by step, judged by what is written to the API server."""

from __future__ import annotations

from typing import Any

from tests.beds.controller.bed import Bed
from tests.beds.objects import V2, daemonset
from tests.system.both import both_beds

ZONES = ("a", "b", "a", "b", "a", "b")
"""Of node-0 … node-5."""


async def deployed(bed: Bed, **rolling: Any) -> None:
    """A DaemonSet everywhere on these nodes; those of zone b carry the label canary too."""
    for number, zone in enumerate(ZONES):
        await bed.nodes.add(f"node-{number}", labels={"zone": zone, **({"canary": "yes"} if zone == "b" else {})})
    await bed.heard()
    await bed.deploy(daemonset(rolling=rolling))


@both_beds
async def test_nodes_are_updated_in_the_order_of_the_spec(bed: Bed) -> None:
    await deployed(bed, maxUnavailable=1, order=[{"matchLabels": {"canary": "yes"}}, {"groupBy": "zone"}])
    await bed.update(V2)
    assert [*bed.journal.deleted] == ["node-5", "node-3", "node-1", "node-4", "node-2", "node-0"]
