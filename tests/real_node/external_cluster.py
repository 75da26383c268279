"""A cluster that somebody else runs on this machine, such as kind: for the tests that need no hand on its nodes.

`KUBECONFIG=… make test-node`. It has to have the images already: ours under the name that the manifests give it
(`make image`), and the agent's (`python -m tests.beds.real_node images FILE`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from controller.kube.config import load
from controller.kube.requests import Request
from controller.kube.transport import open_transport
from tests.beds.api import NODES, PODS, Api, Object
from tests.beds.control_plane.access import KubectlResult, run_kubectl
from tests.beds.real_node.cluster import is_open
from tests.beds.real_node.workloads import PORT

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl with somebody's kubeconfig."""

    kubectl: Path
    kubeconfig: Path
    folder: Path

    async def run_kubectl(self, *args: str, stdin: str | None = None, seconds: float = 60.0) -> KubectlResult:
        cache = self.folder / "kubectl-cache"
        return await run_kubectl(
            self.kubectl, *args, kubeconfig=self.kubeconfig, cache=cache, stdin=stdin, seconds=seconds
        )


@dataclass(frozen=True, slots=True)
class ExternalCluster:
    """Its programs are asked through its API server."""

    plane: Kubectl
    api: Api
    workers: tuple[str, ...]

    async def ask(self, pod: Object, path: str = "/") -> tuple[int, str]:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        proxy = PODS.path(namespace, f"{name}:{PORT}", "proxy") + path
        answer = await self.api.transport.exchange(Request(method="GET", path=proxy))
        return answer.status, answer.body.decode()


@asynccontextmanager
async def external_cluster(kubectl: Path, kubeconfig: Path, folder: Path) -> AsyncIterator[ExternalCluster]:
    """The cluster of the current context. One that is not on this machine is refused: it may be somebody's own."""
    connection = await load(str(kubeconfig), None)
    host = urlsplit(connection.server).hostname
    assert host in LOOPBACK, f"{kubeconfig} leads to {host}: tests make and delete namespaces, so only here"
    async with open_transport(connection) as transport:
        api = Api(transport)
        nodes = [one for one in await api.list(NODES) if is_open(one)]
        workers = tuple(one["metadata"]["name"] for one in nodes)
        assert workers, "no node is Ready and without taints"
        yield ExternalCluster(Kubectl(kubectl, kubeconfig, folder), api, workers)
