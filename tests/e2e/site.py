"""A cluster as an administrator has it: nodes, one of which really runs the controller's pods, and a shell."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from controller.api.names import LEASE_NAME
from tests.beds.api import PODS, Object
from tests.beds.audit import NAMESPACE
from tests.beds.control_plane import DEFAULT_CONTROLLERS, ControlPlane
from tests.beds.installed.workspace import Workspace, bed_on
from tests.beds.manifests import MANIFESTS
from tests.beds.objects import is_live
from tests.e2e.guide import HERE, commands, sh
from tests.e2e.host import Host, Running

SITE_CONTROLLERS = (
    *DEFAULT_CONTROLLERS,
    "deployment-controller",
    "replicaset-controller",
    "resourcequota-controller",  # no pod of a class that a quota names before it has counted
)
SMALL = {"memory": "64Mi"}
"""Too little for the controller, so that the scheduler puts it where it runs."""


async def free_lease(plane: ControlPlane) -> None:
    """A Lease without a holder: the first candidate leads at once, where it would hold a new one for ten seconds."""
    await plane.run_kubectl("create", "namespace", NAMESPACE)  # which may be there
    await plane.run_kubectl(f"--namespace={NAMESPACE}", "delete", "lease", LEASE_NAME, "--ignore-not-found")
    metadata = {"name": LEASE_NAME, "namespace": NAMESPACE}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
    done = await plane.run_kubectl("create", "-f", "-", stdin=json.dumps(lease))
    assert done.returncode == 0, done.stderr


class Site:
    """`bed` has the DaemonSets' side of the cluster, `host` the controller's."""

    def __init__(self, bed: Workspace, host: Host) -> None:
        self.bed, self.host, self.plane = bed, host, bed.plane

    async def sh(self, line: str, folder: Path = HERE) -> str:
        """Run a line of a document in a shell; returns what it prints."""
        return await sh(self.plane, line, folder)

    async def follow(self, title: str, folder: Path = HERE) -> str:
        """Run all commands of that section of the guide, with the manifests of `folder`; returns what they print."""
        return "".join([await self.sh(line, folder) for line in commands(title)])

    async def replicas(self) -> list[Running]:
        """The controller's pods that are not being deleted."""
        pods = await self.bed.api.list(PODS, namespace=NAMESPACE)
        return [self.host.running[pod["metadata"]["name"]] for pod in pods if is_live(pod)]

    async def versions(self) -> set[str]:
        """The tags of the images that run."""
        return {one.container["image"].rpartition(":")[2] for one in await self.replicas()}

    async def workers(self, *names: str) -> None:
        for name in names:
            await self.bed.nodes.add(name, allocatable=SMALL)

    async def new_kinds_are_seen(self) -> None:
        """A kind that was deleted and made again is unknown to the garbage collector, which looks twice a minute and
        at its start."""
        await self.plane.process("kube-controller-manager").stop()
        await self.plane.start_controller_manager(SITE_CONTROLLERS)

    async def stopped(self) -> None:
        """Take the controller away, and wait until none of its pods is left."""
        await self.sh(f"kubectl -n {NAMESPACE} delete deployment kruise-ds-controller --ignore-not-found")
        await self.bed.api.wait_for(
            PODS, lambda pods: not pods, "the controller's pods are gone", seconds=90.0, namespace=NAMESPACE
        )

    async def pods(self) -> dict[str, tuple[str, int]]:
        """Node to what changes whenever its pod is touched: uid, and restarts of the container."""
        return {pod["spec"]["nodeName"]: _identity(pod) for pod in await self.bed.pods()}


def _identity(pod: Object) -> tuple[str, int]:
    return pod["metadata"]["uid"], sum(one["restartCount"] for one in pod["status"]["containerStatuses"])


@asynccontextmanager
async def site_on(plane: ControlPlane, namespace: str = "") -> AsyncIterator[Site]:
    """Nothing is installed at first, but perhaps the CRD. At the end the controller is taken away with SIGTERM, and
    none of its replicas may have ended in another way."""
    await free_lease(plane)
    async with bed_on(plane, namespace) as bed, Host(plane, bed.api.transport) as host:
        site = Site(bed, host)
        try:
            yield site
        finally:
            await site.stopped()
        assert host.restarts == []
        assert {one.code for one in host.ended} <= {0}, host.ended


def release(folder: Path, version: str) -> Path:
    """A copy of our manifests in `folder`, as another version of them: the image's tag says which."""
    shutil.copytree(MANIFESTS, folder / "manifests")
    deployment = folder / "manifests" / "base" / "deployment.yaml"
    text = deployment.read_text()
    assert ":v0.1.0\n" in text
    deployment.write_text(text.replace(":v0.1.0\n", f":{version}\n"))
    return folder
