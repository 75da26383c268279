"""The real API server with `overlays/default` installed, once for all tests of the manifests."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from controller.api.base import JSONObject
from tests.beds.control_plane import Binaries, ControlPlane
from tests.beds.manifests import MANIFESTS
from tests.manifests.server import Server, daemonsets

SETTLED = {
    "crd/daemonsets.apps.kruise.io": "Established",
    "flowschemas/kruise-ds-controller": "Dangling=False",
    "flowschemas/kruise-ds-controller-leader-election": "Dangling=False",
}
"""What the server itself writes into the status of what is new."""

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
    """`kubectl kustomize` of a folder below manifests/."""

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
    for what, condition in SETTLED.items():
        kubectl("wait", f"--for=condition={condition}", "--timeout=30s", what)
    asked = Server(control_plane)
    yield asked
    asked.close()


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
