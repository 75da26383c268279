"""Two controllers, one Lease: however the leader ends, one of them acts, and never both."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio

from tests.control_plane import ControlPlane
from tests.e2e.audit import Audit
from tests.e2e.bed import Bed, sample
from tests.e2e.conftest import ACCOUNT, RIVAL
from tests.e2e.process import Controller, running
from tests.e2e.witness import witnessing
from tests.kit.api import LEASES, Api
from tests.nodes import Behaviour

pytestmark = pytest.mark.real

NODES = tuple(f"led-{number}" for number in range(4))
LEASE = "kruise-ds-controller"
TAKEN_OVER = 15.0 + 3.0
"""Seconds for which a standby leaves the Lease of a silent leader alone, and some for taking it."""


@pytest_asyncio.fixture(autouse=True)
async def no_lease(plane: ControlPlane) -> None:
    """Each test starts without a holder."""
    await plane.run_kubectl("-n", "kruise-ds-system", "delete", "lease", LEASE, "--ignore-not-found")


@asynccontextmanager
async def leader_and_standby(plane: ControlPlane) -> AsyncIterator[tuple[Controller, Controller]]:
    """The leader is ACCOUNT, the standby RIVAL, so that the audit log tells them apart."""
    async with AsyncExitStack() as stack:
        both = []
        for user in (ACCOUNT, RIVAL):
            started = running(plane.folder, plane.kubeconfig_for(user), elect=True, secrets=(user.token,))
            both.append(await stack.enter_async_context(started))
            if user is ACCOUNT:
                await both[0].leads()
        assert not both[1].is_leader
        yield both[0], both[1]


async def lease(bed: Bed) -> dict[str, Any]:
    found = await Api(bed.api.transport, "kruise-ds-system").get(LEASES, LEASE)
    spec: dict[str, Any] = found["spec"]
    return spec


async def test_a_leader_that_is_stopped_hands_over_within_three_seconds(bed: Bed, plane: ControlPlane) -> None:
    await bed.workers(*NODES)
    await bed.apply_sample("ds.demo.yaml")
    async with leader_and_standby(plane) as (leader, standby):
        pods = await bed.serves(*NODES)
        assert (await standby.page("/readyz"))[0] == 200, "a standby is ready"
        assert await standby.metric('leader_election_master_status{name="kruise-ds-controller"}') == 0
        assert await leader.metric('leader_election_master_status{name="kruise-ds-controller"}') == 1
        before = await lease(bed)
        begun = time.monotonic()
        assert await leader.terminated() == 0
        await standby.leads(3.0 - (time.monotonic() - begun))
        assert await standby.metric('leader_election_master_status{name="kruise-ds-controller"}') == 1
        after = await lease(bed)
        assert after["holderIdentity"] != before["holderIdentity"]
        assert after["leaseTransitions"] == before.get("leaseTransitions", 0) + 1
        name = pods[NODES[0]]["metadata"]["name"]
        await bed.kubectl("delete", "pod", name)
        again = await bed.serves(*NODES)
        assert again[NODES[0]]["metadata"]["name"] != name


async def test_a_killed_leader_is_followed_when_its_lease_has_run_out(bed: Bed, plane: ControlPlane) -> None:
    await bed.workers(*NODES)
    async with witnessing(bed.api) as witness, leader_and_standby(plane) as (leader, standby):
        await bed.apply_sample("ds.demo.yaml")
        await witness.until(lambda: len(witness.ever) >= 1, "the first pod is made")
        await leader.killed()
        await standby.leads(TAKEN_OVER)
        await bed.serves(*NODES)
        await bed.settled(len(NODES))
        assert sorted(witness.ever.values()) == sorted(NODES)


async def test_a_leader_that_was_frozen_writes_nothing_when_it_wakes_up(bed: Bed, plane: ControlPlane) -> None:
    await bed.workers(*NODES)
    demo = sample("ds.demo.yaml")
    await bed.apply(demo)
    async with witnessing(bed.api) as witness, leader_and_standby(plane) as (leader, standby):
        await bed.serves(*NODES)
        await bed.settled(len(NODES))
        bed.nodes.behave("*", Behaviour(ready=0.3))
        witness.floor = len(NODES) - 1
        demo["spec"]["template"]["metadata"]["labels"]["ver"] = "v2"
        await bed.apply(demo)
        await witness.until(lambda: bool(witness.retired), "the update has begun")
        leader.process.signal(signal.SIGSTOP)
        await standby.leads(TAKEN_OVER)
        await bed.serves(*NODES, labels={"ver": "v2"})
        await bed.settled(len(NODES))
        witness.floor = 0
        audit = Audit(plane, ACCOUNT)
        await bed.kubectl("delete", "pods", "--all", "--force", "--grace-period=0")  # tempting work
        leader.process.signal(signal.SIGCONT)
        async with asyncio.timeout(20):
            code = await leader.process.ended()
        assert code != 0, "it must not look like a clean end"
        await bed.serves(*NODES, labels={"ver": "v2"})
        assert audit.writes() == [], "the one that was frozen"


async def test_without_the_namespace_of_its_lease_it_says_so_and_waits(plane: ControlPlane) -> None:
    options = ("--leader-elect-namespace=nowhere",)
    async with running(plane.folder, plane.kubeconfig, *options, elect=True) as controller:
        line = await controller.says("cannot reach the leader lease")
        assert 'namespaces "nowhere" not found' in line["msg"]
        await plane.run_kubectl("create", "namespace", "nowhere")
        await controller.leads(10)
        assert await controller.terminated() == 0
        await controller.says("the leader lease is released", 1)
