"""A namespace of a cluster with real nodes."""

from __future__ import annotations

from typing import TypeAlias

import pytest

from tests.beds.api import PODS, Api, Object
from tests.beds.installed.workspace import Namespaced
from tests.beds.objects import is_live, is_ready, node_of
from tests.beds.real_node import RealCluster, RealNode
from tests.beds.real_node.node import LONG
from tests.beds.real_node.workloads import version_of, warnings
from tests.real_node.external_cluster import ExternalCluster

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
