"""A leader whose Lease cannot be had. How one follows the other is in test_failover.py."""

from __future__ import annotations

import pytest

from tests.beds.control_plane import ControlPlane
from tests.beds.installed.process import running

pytestmark = pytest.mark.real


async def test_without_the_namespace_of_its_lease_it_says_so_and_waits(plane: ControlPlane) -> None:
    options = ("--leader-elect-namespace=nowhere",)
    async with running(plane.folder, plane.kubeconfig, *options, elect=True) as controller:
        line = await controller.says("cannot reach the leader lease")
        assert 'namespaces "nowhere" not found' in line["msg"]
        await plane.run_kubectl("create", "namespace", "nowhere")
        await controller.leads()
        assert await controller.terminated() == 0
        await controller.says("the leader lease is released", 1)
