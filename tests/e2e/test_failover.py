"""One round of every way in which a leader ends in mid-rollout; `make test-failover` plays fifty."""

from __future__ import annotations

import asyncio

import pytest

from tests.beds.control_plane import ControlPlane
from tests.tools.failover.pair import played_nodes
from tests.tools.failover.rounds import play
from tests.tools.failover.ways import CLEAN, CRASH, WAYS

pytestmark = pytest.mark.real

BUSY = {CLEAN: 10.0, CRASH: 60.0}
"""Instead of those seconds: how fast a machine is that has other things to do says nothing about us. A Lease that was
not given back is not free before 13 seconds."""


async def test_however_a_leader_ends_its_successor_is_quick_and_it_writes_nothing_more(plane: ControlPlane) -> None:
    async with played_nodes(plane) as nodes, asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(play(plane, nodes, way, f"failover-{number}", number / len(WAYS)))
            for number, way in enumerate(WAYS)
        ]
    for way, task in zip(WAYS, tasks, strict=True):
        outcome = task.result()
        assert not outcome.late, f"{way.name}: written by a leader that had been followed: {outcome.late}"
        assert outcome.lease < BUSY[way.limit], f"{way.name}: {outcome.lease:.1f} s until the next one leads"
