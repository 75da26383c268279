"""The main job as clients see it: seconds without an answer, ours beside the native controller on real nodes.

A node has two clients. One knows its pod from the EndpointSlices, as kube-proxy does for local traffic, and asks it
while it is ready: nobody to ask is no answer. The other asks the pod at its address, ready or not, as by a host port.

The program takes a second to start, and serves for one more when it is told to go; where a row says so, it starts and
ends at once.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from controller.api.image_pull_job import PULLER_LABEL
from tests.beds.api import ACCOUNTS, DAEMONSETS, NAMESPACES, PODS, Api, Object, Resource
from tests.beds.control_plane import Binaries, service_account
from tests.beds.installed.process import running
from tests.beds.installed.workspace import built
from tests.beds.manifests import MANIFESTS
from tests.beds.objects import image_of, serves
from tests.beds.real_node import Manners, NodeBinaries, RealCluster, real_cluster
from tests.beds.real_node.clients import asking, asking_pods
from tests.beds.real_node.node import LONG
from tests.beds.real_node.registry import HOST
from tests.beds.real_node.workloads import NATIVE, agent_pod, agent_set

ACCOUNT = service_account("kruise-ds-system", "kruise-ds-controller")
NODES = ("node-1", "node-2", "node-3")
PROGRAM = {"START_SECONDS": "1", "STOP_SECONDS": "1"}
AT_ONCE: Mapping[str, str] = {}
IN_PLACE = {"rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": 1}
PULL_SECONDS = 10.0
GATE = "--feature-gates=PreDownloadImageForDaemonSetUpdate=true"
AHEAD = {"apps.kruise.io/image-predownload-parallelism": "100%"}
KINDS = {"native": NATIVE, "kruise-ds": DAEMONSETS}

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Run:
    """A DaemonSet of one kind, which serves all nodes."""

    cluster: RealCluster
    api: Api
    kind: Resource

    async def update(self, name: str = "agent:v2") -> None:
        path = "/spec/template/spec/containers/0/image"
        await self.api.patch(self.kind, "agent", [{"op": "replace", "path": path, "value": f"{HOST}/{name}"}])
        await self.served(name.rpartition(":")[2])

    async def update_with_a_slow_pull(self) -> None:
        """An image that no node has yet."""
        name = f"agent:late-{self.api.namespace}"
        manners = Manners(delay=PULL_SECONDS / 2)  # of two requests
        self.cluster.registry.put(name, self.cluster.images.agent(f"late-{self.api.namespace}"), manners)
        await self.update(name)

    async def lose_pods(self) -> None:
        before = {pod["metadata"]["uid"] for pod in await self.api.list(PODS)}
        await self.api.delete_all(PODS)
        await self.served("v1", but=before)

    async def lose_power(self) -> None:
        async with self.cluster.nodes["node-2"].without_power():
            pass
        await self.api.wait_for(PODS, lambda pods: any(map(_started_again, pods)), "a new container", seconds=LONG)
        await self.served("v1")

    async def served(self, version: str, *, but: Collection[str] = ()) -> None:
        """Wait until all nodes are, by pods of this version that are not among those."""

        def so(pods: list[Object]) -> bool:
            served = [pod for pod in pods if PULLER_LABEL not in pod["metadata"]["labels"]]
            new = [pod for pod in served if pod["metadata"]["uid"] not in but and serves(pod)]
            return len(new) == len(served) == len(NODES) and all(image_of(pod).endswith(version) for pod in new)

        await self.api.wait_for(PODS, so, f"{version} everywhere", seconds=LONG)


def _started_again(pod: Object) -> bool:
    return any(one["restartCount"] for one in pod["status"].get("containerStatuses") or [])


@dataclass(frozen=True, slots=True)
class Story:
    """What is done, under which strategy."""

    words: str
    rolling: Mapping[str, Any]
    happens: Callable[[Run], Awaitable[None]]
    program: Mapping[str, str] = field(default_factory=lambda: PROGRAM)
    ahead: bool = False
    """With the gate: images go ahead, to all nodes at once."""

    def is_for(self, kind: Resource) -> bool:
        return kind is DAEMONSETS or "rollingUpdateType" not in self.rolling


STORIES = (
    Story("update, maxUnavailable 1", {"maxUnavailable": 1}, Run.update),
    Story("update, maxUnavailable 50 %", {"maxUnavailable": "50%"}, Run.update),
    Story("update, maxSurge 1", {"maxSurge": 1, "maxUnavailable": 0}, Run.update),
    Story("all pods deleted at once", {"maxUnavailable": 1}, Run.lose_pods),
    Story("a node without power, and back", {"maxUnavailable": 1}, Run.lose_power),
    Story("a program that starts at once: update, maxUnavailable 1", {"maxUnavailable": 1}, Run.update, AT_ONCE),
    Story("the same in place", IN_PLACE, Run.update, AT_ONCE),
    Story("the same in place, an image that takes 10 s to pull", IN_PLACE, Run.update_with_a_slow_pull, AT_ONCE),
    Story("the same, pulled ahead of the update", IN_PLACE, Run.update_with_a_slow_pull, AT_ONCE, ahead=True),
)


@dataclass(frozen=True, slots=True)
class Seen:
    """Seconds: without an answer on each node, by either way of asking; and until all was served again."""

    by_slices: Sequence[float]
    by_address: Sequence[float]
    took: float


async def clients(control: Binaries, programs: NodeBinaries, rounds: int, say: Callable[[str], None]) -> str:
    """The table, medians of `rounds`."""
    seen: dict[tuple[str, str], list[Seen]] = {}
    async with real_cluster(control, programs, NODES, users=[ACCOUNT]) as cluster:
        await _install(cluster)
        for name, image in cluster.images.versions().items():
            cluster.registry.put(name, image)
        plane = cluster.plane
        await _pull(cluster)
        for ahead in (False, True):
            stories = [story for story in STORIES if story.ahead is ahead]
            async with running(plane.folder, plane.kubeconfig_for(ACCOUNT), *([GATE] if ahead else [])):
                for number, story, (who, kind) in itertools.product(range(rounds), stories, KINDS.items()):
                    if not story.is_for(kind):
                        continue
                    one = await _play(cluster, story, kind)
                    seen.setdefault((story.words, who), []).append(one)
                    say(
                        f"clients, round {number + 1}: {story.words}, {who}: {_all(one.by_slices)} s by "
                        f"EndpointSlices, {_all(one.by_address)} s by address, in {one.took:.1f} s"
                    )
    return _table(seen)


async def _install(cluster: RealCluster) -> None:
    documents = [one for one in await built(cluster.plane, "overlays/default") if one["kind"] != "Deployment"]
    done = await cluster.plane.run_kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(documents))
    assert done.returncode == 0, done.stderr
    component = MANIFESTS / "components" / "image-pull"
    for name in ("imagepulljobs.apps.kruise.io", "clusterrole", "clusterrolebinding"):
        done = await cluster.plane.run_kubectl("apply", "--server-side", "-f", str(component / f"{name}.yaml"))
        assert done.returncode == 0, done.stderr
    await cluster.plane.run_kubectl("wait", "--for=condition=Established", "crd/imagepulljobs.apps.kruise.io")


async def _pull(cluster: RealCluster) -> None:
    """Both versions to every node, so that no node is the first to wait for one."""
    api = Api(cluster.api.transport, "default")
    await api.wait_for(ACCOUNTS, bool, "the account of the namespace")
    for node, version in itertools.product(NODES, ("v1", "v2")):
        await api.create(PODS, agent_pod(f"pull-{node}-{version}", f"agent:{version}", on=node))
    await api.wait_for(PODS, lambda pods: all(map(serves, pods)), "all images on all nodes", seconds=LONG)
    await api.delete_all(PODS)
    await api.wait_for(PODS, lambda pods: not pods, "all gone", seconds=LONG)


async def _play(cluster: RealCluster, story: Story, kind: Resource) -> Seen:
    api = Api(cluster.api.transport, f"clients-{next(_numbers)}")
    await api.create(NAMESPACES, {"metadata": {"name": api.namespace}})
    await api.wait_for(ACCOUNTS, bool, "the account of the namespace")
    run = Run(cluster, api, kind)
    asked = agent_set("agent:v1", kind=kind, environment=story.program, **story.rolling)
    asked["metadata"]["annotations"] = dict(AHEAD) if story.ahead else {}
    await api.create(kind, asked)
    await run.served("v1")
    async with asking(cluster, api, "agent") as there, asking_pods(cluster, api) as direct:
        begun = time.monotonic()
        await story.happens(run)
        took = time.monotonic() - begun
        await there.all_have_an_answer()
    await api.delete(kind, "agent")
    await api.delete_all(PODS)
    await api.wait_for(PODS, lambda pods: not pods, "all gone", seconds=LONG)
    by_slices, by_address = ([waited.get(name, 0.0) for name in NODES] for waited in (there.waited, direct.waited))
    return Seen(by_slices, by_address, took)


def _all(waits: Sequence[float]) -> str:
    return "/".join(f"{seconds:.2f}" for seconds in waits)


def _table(seen: Mapping[tuple[str, str], list[Seen]]) -> str:
    """Of each kind what its clients have seen by the EndpointSlices, then by address."""

    def cells(story: Story, who: str) -> list[str]:
        if not story.is_for(KINDS[who]):
            return ["-", "-"]
        runs = seen[story.words, who]
        took = f"{statistics.median(one.took for one in runs):.1f}"
        return [f"{_nodes([one.by_slices for one in runs])} ({took})", _nodes([one.by_address for one in runs])]

    heads = [f"{who}, {way}" for who in KINDS for way in ("by EndpointSlices (until all is done)", "by address")]
    lines = [
        f"| seconds without an answer: median node, worst node | {' | '.join(heads)} |",
        f"|---|{'---|' * len(heads)}",
        *(
            f"| {' | '.join([story.words, *(cell for who in KINDS for cell in cells(story, who))])} |"
            for story in STORIES
        ),
    ]
    return "\n".join(lines)


def _nodes(runs: Sequence[Sequence[float]]) -> str:
    """Of all nodes of all runs the median, and the median of each run's worst."""
    return f"{statistics.median(itertools.chain(*runs)):.2f}, {statistics.median(map(max, runs)):.2f}"
