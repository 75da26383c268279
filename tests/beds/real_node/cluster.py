"""A control plane with all its controllers, a registry, and real nodes that have joined."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from controller.kube.config import load
from controller.kube.transport import open_transport
from tests.beds.api import NODES, Api, Object
from tests.beds.control_plane import DEFAULT_CONTROLLERS, Binaries, ControlPlane, Process, User
from tests.beds.control_plane.cluster import NODE_LIFECYCLE
from tests.beds.control_plane.processes import temporary_folder
from tests.beds.objects import is_ready, node_of
from tests.beds.real_node import cgroups
from tests.beds.real_node.binaries import NodeBinaries
from tests.beds.real_node.node import HERE, LONG, RealNode, Surroundings
from tests.beds.real_node.registry import Images, Registry
from tests.beds.real_node.workloads import PORT

CONTROLLERS = (
    *DEFAULT_CONTROLLERS,
    NODE_LIFECYCLE,
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "endpointslice-controller",
    "replicaset-controller",
    "resourcequota-controller",  # no pod of a class that a quota names before it has counted
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "taint-eviction-controller",
)

SOON = ("--node-monitor-grace-period=40s", "--node-monitor-period=1s")
"""A node is looked at often; that it is silent is believed after ten of its reports, for the machine may be busy."""

NOBODY = "0.0.0.0"
MEMORY = next((path for path in [Path("/dev/shm")] if path.is_dir()), None)
"""The nodes' disks, if the machine has it: ten thousand files of an image are soon written there, and soon gone."""


@dataclass(frozen=True, slots=True)
class RealCluster:
    """What a test has in its hands: `nodes` by name, `api` as the administrator, `images` to put into `registry`."""

    plane: ControlPlane
    api: Api
    nodes: dict[str, RealNode]
    registry: Registry
    images: Images

    @property
    def workers(self) -> tuple[str, ...]:
        """The nodes that a daemon pod without tolerations runs on."""
        return tuple(self.nodes)

    async def ask(self, pod: Object, path: str = "/") -> tuple[int, str]:
        """What the program in a pod of the agent answers, asked on its node."""
        return await self.nodes[node_of(pod)].fetch(pod["status"].get("podIP") or NOBODY, PORT, path)

    async def ready(self) -> None:
        """Wait until all nodes are Ready and pods may come; TimeoutError with the logs of those that are not."""

        def lacking(found: list[Object]) -> set[str]:
            return self.nodes.keys() - {one["metadata"]["name"] for one in found if is_open(one)}

        try:
            await self.api.wait_for(NODES, lambda found: not lacking(found), "all nodes are Ready", seconds=LONG)
        except TimeoutError as error:
            logs = (self.nodes[name].logs for name in sorted(lacking(await self.api.list(NODES))))
            raise TimeoutError(f"{error}{''.join(logs)}") from None


def is_open(node: Object) -> bool:
    """Ready, and without a taint that keeps pods away."""
    return is_ready(node) and not node["spec"].get("taints")


@asynccontextmanager
async def real_cluster(
    control: Binaries, programs: NodeBinaries, names: Sequence[str], *, users: Sequence[User] = ()
) -> AsyncIterator[RealCluster]:
    """All nodes Ready. Nothing of it is left at the end, and no process lives on when this one is killed."""
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(temporary_folder(MEMORY))
        cgroup = f"{cgroups.PREFIX}{folder.name.rpartition('-')[2]}"
        stack.enter_context(cgroups.guarded(cgroup))
        exchange = Process("exchange", [sys.executable, "-I", HERE / "wire.py", "exchange", folder], folder=folder)
        stack.callback(exchange.kill)
        registry = await stack.enter_async_context(Registry())
        plane = ControlPlane(
            control,
            controllers=(),
            scheduler=True,
            users=users,
            audit=True,
            taint_new_nodes=True,
            service_accounts=True,
            apiserver_flags=[
                f"--egress-selector-config-file={_through_exchange(folder)}",
                "--kubelet-preferred-address-types=InternalIP",
            ],
        )
        await stack.enter_async_context(plane)
        around = Surroundings(
            folder,
            cgroup,
            programs.folder,
            plane.kubeconfig,
            apiserver=plane.url.removeprefix("https://"),
            registry=registry.address,
        )
        nodes = {name: RealNode(name, number, around) for number, name in enumerate(names, start=1)}
        transport = await stack.enter_async_context(open_transport(await load(str(plane.kubeconfig), None)))
        images = Images(programs.agent)
        cluster = RealCluster(plane, Api(transport), nodes, registry, images)
        pause = images.pause(folder)
        for node in nodes.values():
            stack.callback(node.power_off)
        async with asyncio.TaskGroup() as starting:
            flags = [f"--root-ca-file={plane.ca_path}", *SOON]
            starting.create_task(plane.start_controller_manager(CONTROLLERS, flags=flags))
            for node in nodes.values():
                starting.create_task(node.power_on(pause))
        await cluster.ready()
        yield cluster


def _through_exchange(folder: Path) -> Path:
    """How the API server reaches kubelets, for logs and exec: by no network, but through a socket in `folder`."""
    connection = {
        "proxyProtocol": "HTTPConnect",
        "transport": {"uds": {"udsName": str(folder / "exchange.sock")}},
    }
    document = {
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [{"name": "cluster", "connection": connection}],
    }
    path = folder / "egress.json"
    path.write_text(json.dumps(document))
    return path
