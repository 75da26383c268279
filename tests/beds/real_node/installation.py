"""The controller as a Deployment whose pods really run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import msgspec

from tests.beds.api import LEASES, PODS, Api, Object, Resource
from tests.beds.installed.workspace import Kubectl
from tests.beds.manifests import MANIFESTS
from tests.beds.pods import serves
from tests.beds.real_node.patience import LONG
from tests.beds.real_node.workloads import warnings
from tests.beds.rights import NAME, NAMESPACE

DEPLOYMENTS = Resource("/apis/apps/v1", "deployments", "Deployment")


class Cluster(Protocol):
    """Any that has the image on its nodes."""

    @property
    def plane(self) -> Kubectl: ...
    @property
    def api(self) -> Api: ...


class Installation:
    """What `manifests/overlays/default` has brought."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.api = Api(cluster.api.transport, NAMESPACE)

    async def replicas(self, count: int = 2) -> list[Object]:
        """Wait until so many are Ready, and no other is there."""
        return await self.api.wait_for(
            PODS, lambda pods: len(pods) == count == sum(map(serves, pods)), f"{count} replicas Ready", seconds=LONG
        )

    async def leader(self, *, but: str = "") -> Object:
        """Wait until another pod than `but` holds the Lease; returns it."""
        found = await self.api.wait_for(
            LEASES, lambda leases: _holder(leases) not in ("", but), f"another pod than {but} leads", seconds=LONG
        )
        return await self.api.get(PODS, _holder(found))

    async def kubectl(self, *words: str) -> str:
        done = await self.cluster.plane.run_kubectl("--namespace", NAMESPACE, *words, seconds=LONG)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout

    async def logged(self, pod: str) -> list[Object]:
        """All lines of `kubectl logs`; each is JSON."""
        return [msgspec.json.decode(line) for line in (await self.kubectl("logs", pod)).splitlines()]

    async def warnings(self) -> list[str]:
        return await warnings(self.api)


def _holder(leases: list[Object]) -> str:
    """The name of the pod; the identity has something random after it."""
    return next((str(one["spec"].get("holderIdentity") or "").partition("_")[0] for one in leases), "")


@asynccontextmanager
async def installed(cluster: Cluster) -> AsyncIterator[Installation]:
    """Apply the overlay as it is, and take the Deployment away at the end. The nodes have the image."""
    here = Installation(cluster)
    await here.kubectl("apply", "--server-side", "-k", str(MANIFESTS / "overlays" / "default"))
    try:
        yield here
    finally:
        await here.kubectl("delete", "deployment", NAME)
        await here.api.wait_for(PODS, lambda pods: not pods, "no replica is left", seconds=LONG)
