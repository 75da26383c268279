"""The controller is killed at any moment and started again: nothing is done twice, nothing is forgotten."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from tests.beds.api import REVISIONS
from tests.beds.control_plane import ControlPlane
from tests.beds.installed.process import Controller, running
from tests.beds.installed.witness import Witness, witnessing
from tests.beds.installed.workspace import Workspace, sample
from tests.beds.nodes import Behaviour
from tests.e2e.conftest import ACCOUNT

pytestmark = pytest.mark.real

NODES = tuple(f"killed-{number}" for number in range(8))
SLOWLY = ("--kube-api-qps=12", "--kube-api-burst=1")
"""So that there is a middle to be killed in."""


@asynccontextmanager
async def started(plane: ControlPlane) -> AsyncIterator[Controller]:
    async with running(plane.folder, plane.kubeconfig_for(ACCOUNT), *SLOWLY, secrets=(ACCOUNT.token,)) as controller:
        yield controller


async def kill_at(bed: Workspace, witness: Witness, moments: list[tuple[str, Callable[[], bool]]]) -> None:
    """Run one controller after the other; each is killed when its moment has come."""
    for what, has_come in moments:
        async with started(bed.plane) as controller:
            await witness.until(has_come, what)
            await controller.killed()


async def test_an_update_that_is_killed_five_times_keeps_its_budget_and_replaces_each_pod_once(
    bed: Workspace,
) -> None:
    await bed.workers(*NODES)
    demo = sample("ds.demo.yaml")
    demo["spec"]["updateStrategy"] = {"rollingUpdate": {"maxUnavailable": 2}}
    await bed.apply(demo)
    async with running(bed.plane.folder, bed.plane.kubeconfig_for(ACCOUNT)):
        await bed.serves(*NODES)
        await bed.settled(len(NODES))
    bed.nodes.behave("*", Behaviour(ready=0.2, terminate=0.2))
    async with witnessing(bed.api) as witness:
        await witness.until(lambda: len(witness.ready) == 8, "all pods seen")
        witness.floor = 6
        demo["spec"]["template"]["metadata"]["labels"]["ver"] = "v2"
        await bed.apply(demo)
        moments: list[tuple[str, Callable[[], bool]]] = [
            ("the first pod has to go", lambda: len(witness.retired) >= 1),
            ("the first new pod is made", lambda: len(witness.ever) >= 9),
            ("two more have to go", lambda: len(witness.retired) >= 3),
            ("the fourth new pod is made", lambda: len(witness.ever) >= 12),
            ("the seventh has to go", lambda: len(witness.retired) >= 7),
        ]
        await kill_at(bed, witness, moments)
        async with started(bed.plane):
            await bed.serves(*NODES, labels={"ver": "v2"})
            await bed.settled(len(NODES))
        await witness.up_to_date()
        assert sorted(witness.ever.values()) == sorted(NODES * 2), "one old and one new pod for each node"
        assert len(witness.retired) == len(NODES), "no new pod was told to go"
    assert sorted(one["revision"] for one in await bed.api.list(REVISIONS)) == [1, 2]


async def test_sigterm_in_the_middle_of_work_ends_it_cleanly_and_the_next_one_goes_on(bed: Workspace) -> None:
    await bed.workers(*NODES)
    async with witnessing(bed.api) as witness:
        await bed.apply_sample("ds.demo.yaml")
        async with started(bed.plane) as controller:
            await witness.until(lambda: len(witness.ever) >= 3, "three pods made")
            assert await controller.terminated() == 0
            assert controller.lines[-1]["msg"] == "stopped"
        async with started(bed.plane):
            await bed.serves(*NODES)
            await bed.settled(len(NODES))
        await witness.up_to_date()
        assert sorted(witness.ever.values()) == sorted(NODES)


async def test_sigint_is_sigterm(plane: ControlPlane) -> None:
    async with started(plane) as controller:
        controller.process.signal(signal.SIGINT)
        assert await controller.process.ended() == 0
