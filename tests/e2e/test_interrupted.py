"""The controller or the API server ends at any moment: nothing is done twice, nothing is forgotten."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.beds.api import REVISIONS
from tests.beds.control_plane import ControlPlane
from tests.beds.installed.process import Controller, running
from tests.beds.installed.witness import witnessing
from tests.beds.installed.workspace import Workspace, sample
from tests.beds.nodes import Behaviour
from tests.e2e.conftest import ACCOUNT

pytestmark = pytest.mark.real

NODES = tuple(f"killed-{number}" for number in range(8))


@asynccontextmanager
async def slow(plane: ControlPlane) -> AsyncIterator[Controller]:
    """A controller that takes its time, so that there is a middle to be killed in."""
    options = ("--kube-api-qps=12", "--kube-api-burst=1")
    async with running(plane.folder, plane.kubeconfig_for(ACCOUNT), *options, secrets=(ACCOUNT.token,)) as controller:
        yield controller


async def test_an_update_survives_killed_controllers_and_a_killed_api_server(bed: Workspace) -> None:
    await bed.workers(*NODES)
    demo = sample("ds.demo.yaml")
    demo["spec"]["updateStrategy"] = {"rollingUpdate": {"maxUnavailable": 2}}
    await bed.apply(demo)
    async with running(bed.plane.folder, bed.plane.kubeconfig_for(ACCOUNT)):
        await bed.settled(len(NODES))
    bed.nodes.behave("*", Behaviour(ready=0.2, terminate=0.2))
    async with witnessing(bed.api) as witness:
        await witness.until(lambda: len(witness.ready) == 8, "all pods seen")
        witness.floor = 6
        demo["spec"]["template"]["metadata"]["labels"]["ver"] = "v2"
        await bed.apply(demo)
        for retired, made, what in ((1, 0, "the first goes"), (1, 9, "the first is made"), (3, 0, "two more go")):
            async with slow(bed.plane) as controller:
                await witness.until(lambda: len(witness.retired) >= retired and len(witness.ever) >= made, what)  # noqa: B023
                await controller.killed()
        async with slow(bed.plane):
            await witness.until(lambda: len(witness.retired) >= 5, "the fifth goes")
            await bed.plane.kill_apiserver()
            await bed.plane.start_apiserver()
            await bed.serves(*NODES, labels={"ver": "v2"})
            await bed.settled(len(NODES))
        await witness.up_to_date()
        assert sorted(witness.ever.values()) == sorted(NODES * 2), "one old and one new pod for each node"
        assert len(witness.retired) == len(NODES), "no new pod was told to go"
    assert sorted(one["revision"] for one in await bed.api.list(REVISIONS)) == [1, 2]


async def test_sigterm_and_sigint_in_the_middle_of_work_end_it_cleanly(bed: Workspace) -> None:
    await bed.workers(*NODES)
    async with witnessing(bed.api) as witness:
        await bed.apply_sample("ds.demo.yaml")
        for number, made in ((signal.SIGTERM, 3), (signal.SIGINT, 6)):
            async with slow(bed.plane) as controller:
                await witness.until(lambda: len(witness.ever) >= made, f"{made} pods made")  # noqa: B023
                controller.process.signal(number)
                assert await controller.process.ended() == 0, number
                assert controller.lines[-1]["msg"] == "stopped"
        async with slow(bed.plane):
            await bed.settled(len(NODES))
        await witness.up_to_date()
        assert sorted(witness.ever.values()) == sorted(NODES)
