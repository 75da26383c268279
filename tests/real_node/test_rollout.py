"""A DaemonSet of ours where containers really run: the controller is a process on the machine."""

from __future__ import annotations

import pytest

from tests.beds.real_node.clients import asking
from tests.real_node.bed import Bed
from tests.real_node.rollouts import deployed, goes_node_by_node, settled, update

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("controller")]


async def test_a_rollout_leaves_one_node_at_a_time(bed: Bed) -> None:
    await goes_node_by_node(bed)


async def test_with_surge_no_client_waits(bed: Bed) -> None:
    """The program serves on for longer than it takes until the last client knows."""
    cluster = bed.ours
    async with deployed(bed, maxSurge=1, maxUnavailable=0, environment={"STOP_SECONDS": "25"}) as witness:
        witness.floor, witness.most_pairs = len(bed.workers), 1
        async with asking(cluster, bed.api, "agent") as clients:
            await update(bed, "agent:v2")
            await settled(bed)
            await clients.all_hear("v2")
        assert clients.waited == {}
        assert clients.answers.keys() == {"v1", "v2"}
