"""Three real nodes for all tests here, or a cluster that $CLUSTER leads to; and a namespace of its own for each."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from tests.beds.api import ACCOUNTS, DAEMONSETS, NAMESPACES, PODS, Api, Refusal
from tests.beds.control_plane import ControlPlane, service_account
from tests.beds.control_plane.sources import SourceError, filled_whole, locked
from tests.beds.fixtures import not_to_be_had
from tests.beds.installed.process import Controller, running
from tests.beds.installed.workspace import built
from tests.beds.manifests import MANIFESTS
from tests.beds.real_node import RealCluster, real_cluster
from tests.beds.real_node.node import LONG
from tests.real_node.bed import Bed, Cluster, external_cluster, ours
from tests.tools.image.archive import NoImage, write

ACCOUNT = service_account("kruise-ds-system", "kruise-ds-controller")
ELSEWHERE = os.environ.get("CLUSTER", "")
"""A kubeconfig. Not $KUBECONFIG itself, which may lead anywhere while all tests run."""
_numbers = itertools.count(1)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """One control plane and three nodes. A test that does something to a node leaves it Ready."""
    if ELSEWHERE:
        kubectl = request.getfixturevalue("control_plane_binaries").kubectl
        async with external_cluster(kubectl, Path(ELSEWHERE), tmp_path_factory.mktemp("elsewhere")) as found:
            await apply_all_but_the_deployment(found)
            yield found
        return
    control, programs = (request.getfixturevalue(name) for name in ("control_plane_binaries", "node_binaries"))
    async with real_cluster(control, programs, ["node-1", "node-2", "node-3"], users=[ACCOUNT]) as started:
        await apply_all_but_the_deployment(started)
        for name, image in started.images.versions().items():
            started.registry.put(name, image)
        yield started


async def apply_all_but_the_deployment(cluster: Cluster) -> None:
    """CRD and rights, for a controller that runs as a process with the token of its account."""
    documents = [one for one in await built(cluster.plane, "overlays/default") if one["kind"] != "Deployment"]
    done = await cluster.plane.run_kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(documents))
    assert done.returncode == 0, done.stderr
    done = await cluster.plane.run_kubectl("wait", "--for=condition=Established", "crd/daemonsets.apps.kruise.io")
    assert done.returncode == 0, done.stderr


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def controller(cluster: Cluster) -> AsyncIterator[Controller]:
    """One for the tests of a module, as a process on the machine; on our cluster with the rights of the manifests."""
    plane = cluster.plane
    kubeconfig = plane.kubeconfig_for(ACCOUNT) if isinstance(plane, ControlPlane) else plane.kubeconfig
    async with running(plane.folder, kubeconfig, secrets=(ACCOUNT.token,)) as started:
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def puller(cluster: Cluster) -> AsyncIterator[Controller]:
    """A controller with the gate, and with the rights of the component."""
    plane = ours(cluster).plane
    component = MANIFESTS / "components" / "image-pull"
    for name in ("imagepulljobs.apps.kruise.io", "clusterrole", "clusterrolebinding"):
        done = await plane.run_kubectl("apply", "--server-side", "-f", str(component / f"{name}.yaml"))
        assert done.returncode == 0, done.stderr
    await plane.run_kubectl("wait", "--for=condition=Established", "crd/imagepulljobs.apps.kruise.io")
    gate = "--feature-gates=PreDownloadImageForDaemonSetUpdate=true"
    async with running(plane.folder, plane.kubeconfig_for(ACCOUNT), gate, secrets=(ACCOUNT.token,)) as started:
        yield started


@pytest.fixture(scope="session")
def controller_image(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """Our own image as an archive, under the name that the manifests ask for: $IMAGE, or made now, once for all
    processes of a run.

    None where the cluster has it already, as one that is not ours must.
    """
    if ELSEWHERE:
        return None
    if named := os.environ.get("IMAGE"):
        return Path(named)
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "image"
    try:
        with locked(folder):
            if not folder.exists():
                with filled_whole(folder) as partial:
                    write(partial / "image.tar", lambda _: None)
    except (NoImage, SourceError) as reason:
        not_to_be_had(reason)
    return folder / "image.tar"


@pytest_asyncio.fixture(loop_scope="session")
async def bed(cluster: Cluster) -> AsyncIterator[Bed]:
    """A namespace whose pods get tokens, while all nodes are Ready; at its end none of its pods is left."""
    if isinstance(cluster, RealCluster):
        await cluster.ready()  # the last test may have done something to one
    api = Api(cluster.api.transport, f"kruise-ds-test-{next(_numbers)}")
    await api.create(NAMESPACES, {"metadata": {"name": api.namespace}})
    await api.wait_for(ACCOUNTS, lambda found: bool(found), "the account of the namespace", seconds=LONG)
    yield Bed(cluster, api)
    with suppress(Refusal):  # the kind may not be there
        await api.delete_all(DAEMONSETS)
    await api.delete_all(PODS, gracePeriodSeconds="1")
    await api.wait_for(PODS, lambda pods: not pods, "no pod is left", seconds=LONG)
    await api.delete(NAMESPACES, api.namespace)
