"""One test's place on a shared control plane: a namespace, nodes of its own, and kubectl."""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol

import msgspec
import yaml

from controller.kube.config import load
from controller.kube.transport import open_transport
from tests.beds.api import DAEMONSETS, NAMESPACES, PODS, Api, Object, Refusal
from tests.beds.control_plane import ControlPlane, KubectlResult
from tests.beds.manifests import MANIFESTS, documents
from tests.beds.nodes import Nodes
from tests.beds.objects import is_live, node_of, serves

_numbers = itertools.count(1)


def sample(name: str) -> Object:
    """A DaemonSet of manifests/samples, as data."""
    document: Object = yaml.safe_load((MANIFESTS / "samples" / name).read_text())
    return document


async def built(plane: Kubectl, folder: str) -> list[Object]:
    """`kubectl kustomize manifests/<folder>`, as data."""
    done = await plane.run_kubectl("kustomize", str(MANIFESTS / folder))
    assert done.returncode == 0, done.stderr
    return documents(done.stdout)


class Clocks:
    """What the nodes' clocks show: `slow` seconds less than ours, so that a new pod has been ready for so long."""

    def __init__(self) -> None:
        self.slow = 0.0

    def __call__(self) -> float:
        return time.time() - self.slow


class Kubectl(Protocol):
    """A cluster as kubectl sees it, such as a `ControlPlane`."""

    async def run_kubectl(self, *args: str, stdin: str | None = None, seconds: float = 60.0) -> KubectlResult: ...


class Namespaced:
    """kubectl in one namespace, and what to wait for there."""

    def __init__(self, plane: Kubectl, api: Api) -> None:
        self.plane, self.api = plane, api
        self.namespace = api.namespace

    async def tried(self, *words: str, stdin: str | None = None) -> KubectlResult:
        """kubectl in the test's namespace, however it ends."""
        return await self.plane.run_kubectl(f"--namespace={self.namespace}", *words, stdin=stdin)

    async def kubectl(self, *words: str, stdin: str | None = None) -> str:
        """kubectl in the test's namespace; it must succeed. Returns what it prints."""
        done = await self.tried(*words, stdin=stdin)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout

    async def apply_sample(self, name: str) -> str:
        """`kubectl apply -f` of a file of manifests/samples."""
        return await self.kubectl("apply", "-f", str(MANIFESTS / "samples" / name))

    async def apply(self, document: Object) -> str:
        return await self.kubectl("apply", "-f", "-", stdin=msgspec.json.encode(document).decode())

    async def pods(self) -> list[Object]:
        return await self.api.list(PODS)

    async def serves(self, *nodes: str, labels: Mapping[str, str] | None = None) -> dict[str, Object]:
        """Wait until exactly these nodes have a pod, one each, ready, with `labels`. Returns node -> pod."""

        def is_so(pods: list[Object]) -> bool:
            mine = [pod for pod in pods if serves(pod) and _has(pod, labels or {})]
            return len(mine) == len(pods) and sorted(map(node_of, mine)) == sorted(nodes)

        found = await self.api.wait_for(PODS, is_so, f"a ready pod on each of {', '.join(nodes)}")
        return {node_of(pod): pod for pod in found}

    async def live(self, node: str) -> Object:
        """The one live pod on a node."""
        (pod,) = [pod for pod in await self.pods() if node_of(pod) == node and is_live(pod)]
        return pod

    async def status(self, name: str = "demo", seconds: float = 60.0, **wanted: Any) -> Object:
        """Wait until the controller has seen the newest spec and says so; `wanted` are fields of the status."""

        def is_so(found: list[Object]) -> bool:
            status = found[0].get("status") or {} if found else {}
            seen = status.get("observedGeneration") == found[0]["metadata"]["generation"] if found else False
            return seen and all(status.get(field) == value for field, value in wanted.items())

        query = {"fieldSelector": f"metadata.name={name}"}
        (found,) = await self.api.wait_for(
            DAEMONSETS, is_so, f"status of {name} has {wanted}", seconds=seconds, **query
        )
        status: Object = found["status"]
        return status

    async def settled(self, nodes: int, name: str = "demo", seconds: float = 60.0) -> Object:
        """Wait until the status says that so many nodes are served by the newest version."""
        fields = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "numberAvailable")
        wanted = dict.fromkeys((*fields, "updatedNumberScheduled"), nodes)
        return await self.status(name, seconds, numberMisscheduled=0, **wanted)

    async def progressing(self, words: str, name: str = "demo") -> Object:
        """Wait until the condition Progressing, of the newest spec, has these words in its reason or message."""

        def is_so(found: list[Object]) -> bool:
            one = _progressing(found[0]) if found else {}
            newest = one.get("observedGeneration") == found[0]["metadata"]["generation"] if one else False
            return newest and words in f"{one['reason']}: {one['message']}"

        what, only = f"Progressing of {name} says {words!r}", f"metadata.name={name}"
        (found,) = await self.api.wait_for(DAEMONSETS, is_so, what, fieldSelector=only)
        return _progressing(found)


class Workspace(Namespaced):
    """The same, with played nodes that a test adds."""

    def __init__(self, plane: ControlPlane, api: Api, nodes: Nodes, clocks: Clocks) -> None:
        super().__init__(plane, api)
        self.plane: ControlPlane = plane
        self.nodes, self.clocks = nodes, clocks

    async def workers(self, *names: str, **labels: str) -> None:
        """Add ready nodes without taints."""
        for name in names:
            await self.nodes.add(name, labels=labels)

    async def clear(self) -> None:
        """Leave nothing that another test's DaemonSet could meet."""
        with suppress(Refusal):  # the test may have deleted the kind
            await self.api.delete_all(DAEMONSETS, propagationPolicy="Background")
        await self.api.delete_all(PODS, gracePeriodSeconds="0")
        for node in list(self.nodes.names):
            with suppress(Refusal):  # the test may have deleted it
                await self.nodes.remove(node)
        await self.api.delete(NAMESPACES, self.namespace)


def _progressing(daemonset: Object) -> Object:
    conditions: list[Object] = (daemonset.get("status") or {}).get("conditions") or []
    return next((one for one in conditions if one["type"] == "Progressing"), {})


def _has(pod: Object, labels: Mapping[str, str]) -> bool:
    return labels.items() <= (pod["metadata"].get("labels") or {}).items()


@asynccontextmanager
async def bed_on(plane: ControlPlane, namespace: str = "") -> AsyncIterator[Workspace]:
    """A new namespace (or the one that is named), and played nodes that go with it."""
    async with open_transport(await load(str(plane.kubeconfig), None)) as transport:
        api = Api(transport, namespace or f"e2e-{next(_numbers)}")
        await api.create(NAMESPACES, {"metadata": {"name": api.namespace}})
        clocks = Clocks()
        async with Nodes(transport, clock=clocks, schedule=not plane.runs_scheduler) as nodes:
            bed = Workspace(plane, api, nodes, clocks)
            try:
                yield bed
            finally:
                await bed.clear()
