"""A namespace of a cluster with real nodes, and rollouts of the agent over all of them.

The cluster is ours, or one that somebody else runs on this machine, such as kind: `KUBECONFIG=… make test-node`,
for the tests that need no hand on its nodes. That one has to have the images already: ours under the name that the
manifests give it (`make image`), and the agent's (`python -m tests.beds.real_node images FILE`).
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import pytest

from controller.kube.config import load
from controller.kube.requests import Request
from controller.kube.transport import open_transport
from tests.beds.api import NODES, PODS, Api, Object, Resource
from tests.beds.control_plane.access import KubectlResult, run_kubectl
from tests.beds.installed.witness import Witness, witnessing
from tests.beds.installed.workspace import Namespaced
from tests.beds.objects import image_of, is_live, is_ready, node_of, serves
from tests.beds.real_node import RealCluster, RealNode
from tests.beds.real_node.cluster import is_open
from tests.beds.real_node.node import LONG
from tests.beds.real_node.registry import HOST
from tests.beds.real_node.workloads import PORT, agent_set, version_of, warnings

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl with another kubeconfig."""

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
    """The cluster of the current context. One that is not on this machine is refused: it may be in use."""
    connection = await load(str(kubeconfig), None)
    host = urlsplit(connection.server).hostname
    assert host in LOOPBACK, f"{kubeconfig} leads to {host}: tests make and delete namespaces, so only here"
    async with open_transport(connection) as transport:
        api = Api(transport)
        nodes = [one for one in await api.list(NODES) if is_open(one)]
        workers = tuple(one["metadata"]["name"] for one in nodes)
        assert workers, "no node is Ready and without taints"
        yield ExternalCluster(Kubectl(kubectl, kubeconfig, folder), api, workers)


Cluster: TypeAlias = RealCluster | ExternalCluster


def ours(cluster: Cluster) -> RealCluster:
    """The cluster, if its nodes and its registry do what we say; the test is skipped with another one."""
    if not isinstance(cluster, RealCluster):
        pytest.skip("the nodes and the registry of this cluster are not in our hands")
    return cluster


class Bed(Namespaced):
    """A namespace of a real cluster."""

    def __init__(self, cluster: Cluster, api: Api) -> None:
        super().__init__(cluster.plane, api)
        self.cluster = cluster

    @property
    def ours(self) -> RealCluster:
        return ours(self.cluster)

    @property
    def nodes(self) -> dict[str, RealNode]:
        return self.ours.nodes

    @property
    def workers(self) -> tuple[str, ...]:
        """The nodes that get a daemon pod."""
        return self.cluster.workers

    def everywhere(self, version: str) -> dict[str, str]:
        """What `versions` gives when all nodes have this one."""
        return dict.fromkeys(self.workers, version)

    async def pod(self, name: str) -> Object:
        return await self.api.get(PODS, name)

    async def is_ready(self, name: str) -> Object:
        """Wait until the pod is Ready; returns it."""
        pods = await self.api.wait_for(
            PODS,
            lambda found: bool(found) and is_ready(found[0]),
            f"{name} is Ready",
            seconds=LONG,
            fieldSelector=f"metadata.name={name}",
        )
        return pods[0]

    async def warnings(self) -> list[str]:
        return await warnings(self.api)

    async def version_of(self, pod: Object) -> str:
        """What its program says; empty when it does not answer."""
        return await version_of(self.cluster, pod)

    async def versions(self) -> dict[str, str]:
        """Node to what the program of its pod says. The objects of pods that have ended may still be there."""
        return {node_of(pod): await self.version_of(pod) for pod in await self.pods() if is_live(pod)}


SECRETS = Resource("/api/v1", "secrets", "Secret")
LOGIN = "reader:sesame"
"""Name and password of who may pull."""


@asynccontextmanager
async def deployed(bed: Bed, **rolling: Any) -> AsyncIterator[Witness]:
    """Version v1 on all nodes, and a witness who has seen it."""
    async with deployed_as(bed, agent_set("agent:v1", **rolling)) as witness:
        yield witness


@asynccontextmanager
async def deployed_as(bed: Bed, manifest: Object) -> AsyncIterator[Witness]:
    """The same for a DaemonSet `agent` of that version that another client made."""
    async with witnessing(bed.api) as witness:
        await bed.apply(manifest)
        await settled(bed)
        await witness.until(lambda: witness.ready == {*bed.workers}, "all first pods seen", LONG)
        assert await bed.versions() == bed.everywhere("v1")
        yield witness


async def settled(bed: Bed) -> None:
    """Wait until the status says that the newest version serves all nodes."""
    await bed.settled(len(bed.workers), "agent", LONG)


async def update(bed: Bed, image: str) -> None:
    path = "/spec/template/spec/containers/0/image"
    patch = [{"op": "replace", "path": path, "value": f"registry.test/{image}"}]
    await bed.kubectl("patch", "ads", "agent", "--type=json", f"-p={json.dumps(patch)}")


async def opens(bed: Bed, login: str, name: str) -> None:
    """Make a Secret with which images of the registry can be pulled."""
    user, password = login.split(":")
    auths = {"auths": {HOST: {"username": user, "password": password}}}
    data = {".dockerconfigjson": base64.b64encode(json.dumps(auths).encode()).decode()}
    await bed.api.create(
        SECRETS, {"metadata": {"name": name}, "type": "kubernetes.io/dockerconfigjson", "data": data}
    )


async def goes_node_by_node(bed: Bed) -> None:
    """A whole rollout, in which never more than one node is without a pod that is ready."""
    async with deployed(bed, maxUnavailable=1) as witness:
        witness.floor = len(bed.workers) - 1
        await update(bed, "agent:v2")
        await settled(bed)
        assert await bed.versions() == bed.everywhere("v2")
    assert await bed.warnings() == []


def served_by(pods: list[Object], version: str) -> set[str]:
    """The nodes whose pods have this version and are ready."""
    return {node_of(pod) for pod in pods if serves(pod) and image_of(pod).endswith(f":{version}")}
