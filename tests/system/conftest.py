"""The beds as fixtures: `bed` is the simulator, with `both_beds` the real control plane too; `real_bed` only that."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec
import pytest
import pytest_asyncio
import structlog

from controller.settings import FeatureGates
from tests.beds.audit import Audit, token_account
from tests.beds.control_plane import DEFAULT_CONTROLLERS, ControlPlane, User
from tests.beds.controller.bed import Bed
from tests.beds.controller.opening import in_force, install, on_control_plane, simulated
from tests.beds.manifests import MANIFESTS
from tests.beds.virtual_time import VirtualLoop
from tests.system.both import SIMULATOR

Open = Callable[[], AbstractAsyncContextManager[Bed]]


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Virtual time; on the real control plane it follows the real one."""
    return {"virtual": VirtualLoop}


@pytest.fixture(autouse=True)
def plain_log() -> Iterator[None]:
    """The controller's log as plain lines in the output of the test."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def plane(control_plane: ControlPlane) -> ControlPlane:
    """The session's control plane with overlays/default and components/image-pull."""
    asyncio.run(_prepare(control_plane))
    return control_plane


async def _prepare(plane: ControlPlane) -> None:
    """The garbage collector looks for new kinds only twice a minute, and at its start."""
    await install(plane)
    component = MANIFESTS / "components" / "image-pull"
    for name in ("imagepulljobs.apps.kruise.io", "clusterrole", "clusterrolebinding"):
        done = await plane.run_kubectl("apply", "--server-side", "-f", str(component / f"{name}.yaml"))
        assert done.returncode == 0, done.stderr
    await plane.run_kubectl("wait", "--for=condition=Established", "crd/imagepulljobs.apps.kruise.io")
    await plane.process("kube-controller-manager").stop()
    await plane.start_controller_manager(DEFAULT_CONTROLLERS)


@pytest.fixture(scope="session")
def account(plane: ControlPlane) -> Iterator[User]:
    """The controller's service account, with just the rights of its manifests.

    After the last test the server's audit log tells whether any request wanted more.
    """
    found = asyncio.run(token_account(plane))
    asyncio.run(in_force(plane, found))
    audit = Audit(plane, found)
    yield found
    assert audit.refused() == [], "requests of the controller that its roles do not cover"


@pytest.fixture
def opened(request: pytest.FixtureRequest) -> Open:
    """The simulator, unless `both_beds` asks for the other one."""
    if getattr(request, "param", SIMULATOR) == SIMULATOR:
        return simulated
    plane: ControlPlane = request.getfixturevalue("plane")
    account: User = request.getfixturevalue("account")
    return lambda: on_control_plane(plane, account)


@pytest_asyncio.fixture
async def bed(opened: Open) -> AsyncIterator[Bed]:
    """A bed with the controller running, and without nodes."""
    async with hosted(opened()) as inside:
        yield inside


@pytest_asyncio.fixture
async def pulls(bed: Bed) -> Bed:
    """The bed, with a controller that carries out jobs."""
    await bed.controller.stop()
    bed.controller.start(msgspec.structs.replace(bed.controller.settings, gates=FeatureGates(pre_download=True)))
    bed.patience = 36_000.0
    return bed


@pytest_asyncio.fixture
async def real_bed(plane: ControlPlane, account: User) -> AsyncIterator[Bed]:
    async with hosted(on_control_plane(plane, account)) as inside:
        yield inside


@asynccontextmanager
async def hosted(scope: AbstractAsyncContextManager[Bed]) -> AsyncIterator[Bed]:
    """`scope` in a task of its own: a fixture is set up and torn down by different ones, and task groups mind."""
    inside: asyncio.Future[Bed] = asyncio.get_running_loop().create_future()
    leave = asyncio.Event()

    async def host() -> None:
        async with scope as bed:
            inside.set_result(bed)
            await leave.wait()

    task = asyncio.create_task(host(), name="bed")
    both: list[asyncio.Future[Any]] = [task, inside]
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if not inside.done():
        inside.cancel()
        await task
    yield inside.result()
    leave.set()
    await task
