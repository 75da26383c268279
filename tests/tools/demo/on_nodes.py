"""`make demo-node`: the controller in containers on three real nodes, and a client on each who counts the seconds."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path

import msgspec

from tests.beds.api import PODS, Api, Object
from tests.beds.control_plane import Binaries, obtain
from tests.beds.control_plane.sources import SourceError, Unavailable
from tests.beds.installed.plugin import Plugin
from tests.beds.objects import image_of, node_of, serves
from tests.beds.real_node import NodeBinaries, RealCluster, obtain_node, real_cluster
from tests.beds.real_node.binaries import missing
from tests.beds.real_node.clients import Clients, asking
from tests.beds.real_node.node import LONG
from tests.beds.real_node.workloads import Installation, agent_set, installed
from tests.tools.image.archive import NoImage, write

NODES = ("node-1", "node-2", "node-3")
APP, NAMESPACE = "agent", "default"


class Show:
    """What is typed, and what came of it."""

    def __init__(self, cluster: RealCluster, site: Installation) -> None:
        self._cluster, self._site = cluster, site
        self._api = Api(cluster.api.transport, NAMESPACE)
        self._plugin = Plugin(cluster.plane.kubectl, cluster.plane.kubeconfig, NAMESPACE)

    async def run(self) -> None:
        await self._site.replicas()
        await self._kubectl("get", "pods", "--namespace=kruise-ds-system", "--output=wide")
        # Two, as a node without power takes one of them until it is back.
        daemon = agent_set("agent:v1", environment={"STOP_SECONDS": "25"}, maxSurge=2, maxUnavailable=0)
        await self._kubectl("apply", "-f", "-", stdin=daemon)
        await self._served("v1", NODES)
        await self._plugged("nodes", APP)
        async with asking(self._cluster, self._api, APP) as clients:
            await self._plugged("set-image", APP, "agent=registry.test/agent:v2")
            await self._served("v2", NODES)
            await clients.all_hear("v2")
            _tell(f"{clients.answers.total()} answers on three nodes; {_waits(clients)}")
        await self._lose_the_leader()
        await self._plugged("status", APP)

    async def _lose_the_leader(self) -> None:
        leader = await self._site.leader()
        name, lost = leader["metadata"]["name"], self._cluster.nodes[node_of(leader)]
        _tell(f"{lost.name}, where {name} leads, loses power")
        async with lost.without_power():
            await self._plugged("set-image", APP, "agent=registry.test/agent:v3")
            heir = await self._site.leader(but=name)
            _tell(f"{heir['metadata']['name']} on {node_of(heir)} leads now")
            await self._served("v3", [node for node in NODES if node != lost.name])
            _tell(f"the others have the new version; power is back on {lost.name}")
        await self._served("v3", NODES)

    async def _served(self, version: str, nodes: Collection[str]) -> None:
        """Wait until these nodes have a ready pod of this version."""

        def so(pods: list[Object]) -> bool:
            have = {node_of(pod) for pod in pods if serves(pod) and image_of(pod).endswith(f":{version}")}
            return have >= set(nodes)

        await self._api.wait_for(PODS, so, f"{version} on {', '.join(nodes)}", seconds=LONG)

    async def _kubectl(self, *words: str, stdin: Object | None = None) -> None:
        _tell(f"$ kubectl {' '.join(words)}")
        text = None if stdin is None else msgspec.json.encode(stdin).decode()
        done = await self._cluster.plane.run_kubectl(*words, stdin=text)
        assert done.returncode == 0, done.stderr
        print(done.stdout, flush=True)

    async def _plugged(self, *words: str) -> None:
        _tell(f"$ kubectl kruise-ds {' '.join(words)}")
        print(await self._plugin.ok(*words), flush=True)


async def demonstrate(control: Binaries, programs: NodeBinaries, image: Path) -> None:
    """All of it, from nothing to nothing; `image` is our own as an archive."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    async with real_cluster(control, programs, NODES) as cluster:
        _tell(f"a control plane and three nodes, Ready after {loop.time() - begun:.0f} s; the image is loaded")
        for name, made in cluster.images.versions().items():
            cluster.registry.put(name, made)
        for node in cluster.nodes.values():
            await node.load(image)
        _tell("$ kubectl apply --server-side -k manifests/overlays/default")
        async with installed(cluster) as site:
            await Show(cluster, site).run()
    _tell("all of it is gone")


def main() -> int:
    """Return 0, or 1 with the reason on stderr. An argument is the image's archive; without one it is made."""
    if reasons := missing():
        print(f"this machine can have no real nodes: {'; '.join(reasons)}", file=sys.stderr)
        return 1
    try:
        control, programs = obtain(), obtain_node()
        with tempfile.TemporaryDirectory() as folder:
            image = Path(sys.argv[1]) if sys.argv[1:] else write(Path(folder, "image.tar"), _tell)
            asyncio.run(demonstrate(control, programs, image))
    except (Unavailable, NoImage, SourceError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _waits(clients: Clients) -> str:
    waited = [f"{name} {seconds:.1f} s" for name, seconds in sorted(clients.waited.items())]
    return f"without one were {', '.join(waited)}" if waited else "nobody had to wait"


def _tell(line: str) -> None:
    print(f"\n▸ {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
