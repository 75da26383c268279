"""The control plane breaks while the controller works: it holds on, loses nothing and does nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.beds.control_plane import ControlPlane
from tests.beds.installed.process import running
from tests.beds.installed.witness import Witness, witnessing
from tests.beds.installed.workspace import Workspace, sample
from tests.beds.nodes import Behaviour
from tests.e2e.conftest import ACCOUNT

pytestmark = pytest.mark.real

NODES = tuple(f"tough-{number}" for number in range(6))


@asynccontextmanager
async def in_the_middle_of_an_update(bed: Workspace, plane: ControlPlane) -> AsyncIterator[Witness]:
    """A controller that has begun to update all nodes, two at a time; the witness fails when a third is unserved."""
    await bed.workers(*NODES)
    demo = sample("ds.demo.yaml")
    demo["spec"]["updateStrategy"] = {"rollingUpdate": {"maxUnavailable": 2}}
    async with running(plane.folder, plane.kubeconfig_for(ACCOUNT)), witnessing(bed.api) as witness:
        await bed.apply(demo)
        await bed.serves(*NODES)
        await bed.settled(len(NODES))
        await witness.until(lambda: len(witness.ready) == len(NODES), "all first pods seen")
        bed.nodes.behave("*", Behaviour(ready=0.3))
        witness.floor = len(NODES) - 2
        demo["spec"]["template"]["metadata"]["labels"]["ver"] = "v2"
        await bed.apply(demo)
        await witness.until(lambda: len(witness.retired) >= 3, "the update is on its way")
        yield witness


async def test_an_api_server_that_is_killed_in_the_middle_of_an_update_only_delays_it(
    bed: Workspace, plane: ControlPlane
) -> None:
    async with in_the_middle_of_an_update(bed, plane) as witness:
        await plane.kill_apiserver()
        await plane.start_apiserver()
        await bed.serves(*NODES, labels={"ver": "v2"})
        await bed.settled(len(NODES))
    assert sorted(witness.ever.values()) == sorted(NODES * 2), "one old and one new pod for each node"


async def test_an_etcd_that_hangs_for_ten_seconds_only_delays_an_update(bed: Workspace, plane: ControlPlane) -> None:
    async with in_the_middle_of_an_update(bed, plane) as witness:
        plane.freeze_etcd()
        await asyncio.sleep(10)  # this is how long it hangs
        plane.thaw_etcd()
        await bed.serves(*NODES, labels={"ver": "v2"})
        await bed.settled(len(NODES))
    assert sorted(witness.ever.values()) == sorted(NODES * 2), "one old and one new pod for each node"
