"""What a test on real nodes has in its hands."""

from __future__ import annotations

from tests.beds.api import PODS, Api, Object
from tests.beds.installed.workspace import Namespaced
from tests.beds.pods import is_ready, node_of
from tests.beds.real_node import RealCluster
from tests.beds.real_node.workloads import version_of, warnings


class Place(Namespaced):
    """A namespace of a real cluster."""

    def __init__(self, cluster: RealCluster, api: Api) -> None:
        super().__init__(cluster.plane, api)
        self.cluster, self.nodes = cluster, cluster.nodes

    async def pod(self, name: str) -> Object:
        return await self.api.get(PODS, name)

    async def is_ready(self, name: str) -> Object:
        """Wait until the pod is Ready; returns it."""
        pods = await self.api.wait_for(
            PODS,
            lambda found: bool(found) and is_ready(found[0]),
            f"{name} is Ready",
            seconds=60,
            fieldSelector=f"metadata.name={name}",
        )
        return pods[0]

    async def warnings(self) -> list[str]:
        return await warnings(self.api)

    async def versions(self) -> dict[str, str]:
        """Node to what the program of its pod says; empty where it does not answer."""
        return {node_of(pod): await version_of(self.nodes, pod) for pod in await self.pods()}
