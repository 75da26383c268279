"""The bed of the contract tests: a simulated cluster over HTTP, and a real API server. Both must pass every test."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from controller.kube.connection import Connection, Credentials, tls_context
from controller.kube.transport import open_transport
from controller.runtime.clock import system_clock
from tests.beds.api import NAMESPACES, Api
from tests.beds.control_plane import DEFAULT_CONTROLLERS, ControlPlane
from tests.beds.simulator import Cluster, InProcess, serving
from tests.contract.bed import ApiServer, RealCompaction, SimulatedCompaction

CRDS = Path(__file__).parents[2] / "manifests" / "crds"
BEDS = ["simulator", pytest.param("control-plane", marks=pytest.mark.real)]

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def plane_with_crds(control_plane: ControlPlane) -> ControlPlane:
    """The real API server, which knows our kinds."""
    command = [str(control_plane.kubectl), f"--kubeconfig={control_plane.kubeconfig}"]
    for words in (
        ["apply", "--server-side", "--force-conflicts", "-k", str(CRDS)],
        ["wait", "--for=condition=Established", "--timeout=30s", "crd/daemonsets.apps.kruise.io"],
    ):
        subprocess.run([*command, *words], check=True, capture_output=True, timeout=60)
    asyncio.run(_restart_controllers(control_plane))
    return control_plane


async def _restart_controllers(plane: ControlPlane) -> None:
    """The garbage collector looks for new kinds every 30 s; one that is started anew knows them."""
    await plane.process("kube-controller-manager").stop()
    await plane.start_controller_manager(DEFAULT_CONTROLLERS)


@pytest.fixture(params=BEDS)
def real_plane(request: pytest.FixtureRequest) -> ControlPlane | None:
    """The real control plane, or None when it is the simulator's turn."""
    return request.getfixturevalue("plane_with_crds") if request.param == "control-plane" else None


@pytest.fixture
def simulated() -> Cluster:
    """What stands for the API server when it is the simulator's turn."""
    return Cluster(system_clock, strict_namespaces=True)


@pytest.fixture
async def bed(real_plane: ControlPlane | None, simulated: Cluster) -> AsyncIterator[ApiServer]:
    """An API server with a new namespace for this test."""
    async with AsyncExitStack() as stack:
        if real_plane is None:
            url = await stack.enter_async_context(serving(InProcess(simulated)))
            connection = Connection(server=url, credentials=Credentials())
            made = ApiServer(SimulatedCompaction(simulated))
        else:
            tls = tls_context(str(real_plane.ca_path))
            credentials = Credentials(f"Bearer {real_plane.token}")
            connection = Connection(server=real_plane.url, credentials=credentials, tls=tls)
            made = ApiServer(RealCompaction(real_plane))
        made.transport = await stack.enter_async_context(open_transport(connection))
        made.name = f"contract-{next(_numbers)}"
        made.api = Api(made.transport, made.name)
        await made.api.create(NAMESPACES, {"metadata": {"name": made.name}})
        yield made
        await made.clean_up()
