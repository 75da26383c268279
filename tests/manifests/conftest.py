"""Two real API servers for all tests of the manifests: one with `overlays/default` installed, and a bare one."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest
import pytest_asyncio

from controller.api.objects import JSONObject
from controller.kube.config import load
from controller.kube.transport import open_transport
from tests.beds.api import Api
from tests.beds.control_plane import Binaries, ControlPlane, service_account
from tests.beds.control_plane.sources import Unavailable
from tests.beds.fixtures import not_to_be_had
from tests.beds.manifests import MANIFESTS
from tests.manifests.operator import KINDS, obtain_operator_crds
from tests.manifests.server import Server, daemonsets

ACCOUNT = service_account("kruise-ds-system", "kruise-ds-controller")
SETTLED = {
    "Established": ("crd/daemonsets.apps.kruise.io",),
    "Dangling=False": ("flowschemas/kruise-ds-controller", "flowschemas/kruise-ds-controller-leader-election"),
}
"""Conditions that the server itself writes into the status of what is new."""

Store = Callable[[JSONObject], JSONObject]
Kubectl = Callable[..., str]


def _run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(program), *arguments], capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="session")
def kubectl(control_plane: ControlPlane) -> Kubectl:
    """Run kubectl against the control plane and return what it prints; it must end well."""

    def run(*arguments: str) -> str:
        cache = control_plane.folder / "kubectl-cache"
        flags = [f"--kubeconfig={control_plane.kubeconfig}", f"--cache-dir={cache}"]
        done = _run(control_plane.kubectl, *flags, *arguments)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    return run


@pytest.fixture(scope="session")
def build(control_plane_binaries: Binaries) -> Callable[[str], str]:
    """`kubectl kustomize` of a folder below manifests/, each once for all tests."""

    @cache
    def kustomize(folder: str) -> str:
        done = _run(control_plane_binaries.kubectl, "kustomize", str(MANIFESTS / folder))
        assert done.returncode == 0, done.stderr
        assert not done.stderr, f"{folder} builds with a warning: {done.stderr}"
        return done.stdout

    return kustomize


@pytest.fixture(scope="session")
def server(control_plane: ControlPlane, kubectl: Kubectl) -> Iterator[Server]:
    """The API server with everything of `overlays/default` in it."""
    kubectl("apply", "--server-side", "--force-conflicts", "-k", str(MANIFESTS / "overlays" / "default"))
    for condition, objects in SETTLED.items():
        kubectl("wait", f"--for=condition={condition}", "--timeout=30s", *objects)
    asked = Server(control_plane)
    yield asked
    asked.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def bare(control_plane_binaries: Binaries) -> AsyncIterator[ControlPlane]:
    """A server without controllers, for tests that install and remove."""
    async with ControlPlane(control_plane_binaries, controllers=(), users=[ACCOUNT]) as plane:
        yield plane


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operated(bare: ControlPlane) -> ControlPlane:
    """With the kinds of prometheus-operator."""
    try:
        kinds = obtain_operator_crds()
    except Unavailable as reason:
        not_to_be_had(reason)
    names = [f"crd/{kind}.monitoring.coreos.com" for kind in KINDS]
    for words in (["apply", "--server-side", "-f", str(kinds)], ["wait", "--for=condition=Established", *names]):
        done = await bare.run_kubectl(*words)
        assert (done.returncode, done.stderr) == (0, "")
    return bare


@pytest.fixture
def store(server: Server) -> Iterator[Store]:
    """Create a DaemonSet for the length of the test, and return it as it reads afterwards."""
    with ExitStack() as undo:

        def create(document: JSONObject) -> JSONObject:
            metadata = document["metadata"]
            assert isinstance(metadata, dict)
            path = f"{daemonsets()}/{metadata['name']}"
            server.ask("POST", daemonsets(), document).accepted()
            undo.callback(server.ask, "DELETE", path)
            return server.ask("GET", path).accepted().body

        yield create


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded(bare: ControlPlane) -> ControlPlane:
    """With overlays/default, which has both guards."""
    done = await bare.run_kubectl("apply", "--server-side", "-k", str(MANIFESTS / "overlays" / "default"))
    assert (done.returncode, done.stderr) == (0, "")
    done = await bare.run_kubectl("wait", "--for=condition=Established", "crd/daemonsets.apps.kruise.io")
    assert done.returncode == 0, done.stderr
    return bare


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def account(guarded: ControlPlane) -> AsyncIterator[Api]:
    """A holder of the controller's token."""
    async with open_transport(await load(str(guarded.kubeconfig_for(ACCOUNT)), None)) as transport:
        yield Api(transport)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def administrator(guarded: ControlPlane) -> AsyncIterator[Api]:
    async with open_transport(await load(str(guarded.kubeconfig), None)) as transport:
        yield Api(transport)
