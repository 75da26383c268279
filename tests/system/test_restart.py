"""A controller that ends, in whatever way, and one that begins, change nothing by it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.beds.api import DAEMONSETS, PODS
from tests.beds.control_plane import ControlPlane, Process, User
from tests.beds.control_plane.access import get
from tests.beds.control_plane.processes import free_port
from tests.beds.controller.bed import Bed, uids
from tests.beds.objects import V2, daemonset, image_of
from tests.system.both import both_beds
from tests.system.replay import film


@both_beds
async def test_a_restart_of_the_controller_writes_nothing(bed: Bed) -> None:
    await bed.deploy(daemonset(), nodes=4)
    before = uids(await bed.pods())
    await bed.controller.stop()
    bed.controller.start()
    await bed.api.create(DAEMONSETS, daemonset("proof", pod={"nodeSelector": {"no": "such-node"}}))
    await bed.settled("proof")
    await bed.idle()
    assert uids(await bed.pods()) == before
    assert {write.name for write in bed.journal.work if write.name.startswith("agent")} == set()


@pytest.mark.parametrize("writes", [1, 3, 5, 8])
async def test_a_controller_cut_off_in_mid_update_is_carried_on(bed: Bed, writes: int) -> None:
    nodes = await bed.deploy(daemonset(rolling={"maxUnavailable": 2}), nodes=4)
    history = await film(bed)
    await bed.set_image(V2)
    while len(bed.journal.work) < writes:
        assert await bed.journal.news(bed.patience), str(bed.journal)
    await bed.controller.kill()
    bed.controller.start()
    await bed.settled()
    await bed.runs_on(*nodes, image=V2)
    assert await history.crowded() == []
    assert min(len(served) for served in await history.served()) >= 2
    everybody = {pod["metadata"]["uid"] for state in await history.states() for pod in state}
    assert len(everybody) == 2 * len(nodes), "each replaced once"


@pytest.mark.parametrize("writes", [1, 2, 3, 5, 6])
async def test_a_controller_cut_off_in_a_first_deployment_makes_each_pod_once(bed: Bed, writes: int) -> None:
    nodes = await bed.add_nodes(6)
    history = await film(bed)
    await bed.api.create(DAEMONSETS, daemonset())
    while len(bed.journal.work) < writes:
        assert await bed.journal.news(bed.patience), str(bed.journal)
    await bed.controller.kill()
    bed.controller.start()
    await bed.settled()
    await bed.runs_on(*nodes)
    everybody = {pod["metadata"]["uid"] for state in await history.states() for pod in state}
    assert len(everybody) == len(nodes), "one for each node"
    assert [one["revision"] for one in await bed.revisions()] == [1]


async def test_what_happens_while_no_controller_runs_is_made_up_for(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(), nodes=3)
    before = uids(await bed.pods())
    await bed.controller.kill()
    await bed.api.delete(PODS, (await bed.pods())["node-1"]["metadata"]["name"])
    await bed.nodes.add("node-3")
    await bed.nodes.fail((await bed.pods())["node-0"])
    bed.controller.start()
    after = uids(await bed.runs_on(*nodes, "node-3"))
    assert {node for node in after if after[node] == before.get(node)} == {"node-2"}


def controller_process(kubeconfig: Path, bed: Bed, number: int, port: int) -> Process:
    command = [sys.executable, "-m", "controller", "--kubeconfig", str(kubeconfig), "--no-leader-elect"]
    command += ["--namespace", bed.api.namespace, "--metrics-bind-address", "0"]
    command += ["--health-probe-bind-address", f"127.0.0.1:{port}"]
    return Process(f"controller-{bed.api.namespace}-{number}", command, folder=kubeconfig.parent)


@pytest.mark.real
async def test_the_real_process_may_be_killed_at_any_moment(
    real_bed: Bed, plane: ControlPlane, account: User
) -> None:
    bed, kubeconfig = real_bed, plane.kubeconfig_for(account)
    await bed.controller.stop()
    nodes = await bed.add_nodes(4)
    await bed.api.create(DAEMONSETS, daemonset(rolling={"maxUnavailable": 2}))
    port = free_port()
    process = controller_process(kubeconfig, bed, 0, port)
    try:
        await bed.settled()
        history = await film(bed)
        await bed.set_image(V2)
        await bed.until(
            PODS,
            lambda found: "" if any(image_of(pod) == V2 for pod in found) else "none",
            "a first pod of the new image",
        )
        os.kill(process.pid, signal.SIGKILL)
        await process.ended()
        process = controller_process(kubeconfig, bed, 1, port)
        await bed.settled()
        before = uids(await bed.runs_on(*nodes, image=V2))
        assert await history.crowded() == []
        assert min(len(served) for served in await history.served()) >= 2

        async def ready() -> bool:
            return (await get(f"http://127.0.0.1:{port}/readyz"))[0] == 200

        await process.until(ready, what="ready", seconds=20)
        os.kill(process.pid, signal.SIGTERM)
        assert await process.ended() == 0, "SIGTERM ends it well"
        assert uids(await bed.pods()) == before
    finally:
        process.kill()
