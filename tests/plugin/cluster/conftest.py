"""API servers for the plugin's talk with them: the simulator over HTTP, and a real one that knows our kind."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import pytest

from controller.kube.kubeconfig import Access
from controller.kube.requests import Request, Response, Stream
from controller.kube.transport import open_transport
from controller.runtime.clock import system_clock
from kubectl_plugin.host import Host
from tests.beds.api import DAEMONSETS, NAMESPACES, Api
from tests.beds.control_plane import ControlPlane
from tests.beds.controller.opening import connection_to
from tests.beds.manifests import MANIFESTS
from tests.beds.objects import demo
from tests.beds.simulator import Cluster, InProcess, serving

ALONE = Host({"KUBECONFIG": "/nonexistent/kubeconfig"})
"""What the machine of the tests knows about clusters does not count."""

_numbers = itertools.count(1)


class Watched:
    """A `Transport` that remembers what was asked."""

    def __init__(self, inner: InProcess) -> None:
        self._inner = inner
        self.requests: list[Request] = []

    async def exchange(self, request: Request) -> Response:
        self.requests.append(request)
        return await self._inner.exchange(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        self.requests.append(request)
        return self._inner.stream(request)


class Simulated:
    """A simulated API server with the DaemonSet `agent` in namespace `default`."""

    def __init__(self, url: str, watched: Watched, api: Api) -> None:
        self.access = Access(server=url, token="s3cret-t0ken")
        self.watched = watched
        self.api = api


@pytest.fixture
async def simulated() -> AsyncIterator[Simulated]:
    inner = InProcess(Cluster(system_clock))
    watched = Watched(inner)
    api = Api(inner)
    await api.create(DAEMONSETS, demo("agent"))
    async with serving(watched) as url:
        yield Simulated(url, watched, api)


@pytest.fixture(scope="session")
def plane(control_plane: ControlPlane) -> ControlPlane:
    """The real API server, which knows our kind."""
    command = [str(control_plane.kubectl), f"--kubeconfig={control_plane.kubeconfig}"]
    for words in (
        ["apply", "--server-side", "--force-conflicts", "-k", str(MANIFESTS / "crds")],
        ["wait", "--for=condition=Established", "--timeout=30s", "crd/daemonsets.apps.kruise.io"],
    ):
        subprocess.run([*command, *words], check=True, capture_output=True, timeout=60)
    return control_plane


@pytest.fixture
async def real_api(plane: ControlPlane) -> AsyncIterator[Api]:
    """The administrator's way to a new namespace with the DaemonSet `agent`, gone afterwards."""
    async with open_transport(connection_to(plane, plane.admin)) as transport:
        api = Api(transport, f"plugin-{next(_numbers)}")
        await api.create(NAMESPACES, {"metadata": {"name": api.namespace}})
        await api.create(DAEMONSETS, demo("agent"))
        yield api
        await api.delete(NAMESPACES, api.namespace)
