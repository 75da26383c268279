"""What the plugin's looking verbs cost on a large cluster: wall time as a ratio to kubectl's own lists, and memory.

Nodes and pods are as large as real ones (a kubelet reports up to 50 images), on a real API server, in the middle of a
rollout. No controller and no kwok run: everything stands still while it is looked at.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.beds.control_plane import Binaries, ControlPlane
from tests.beds.installed.plugin import PROGRAMS
from tests.tools.bench import manifests
from tests.tools.bench.api import JSON, Api, api_for
from tests.tools.bench.bed import NAMESPACE, SCRIPT, install

NODES = 5000
UPDATED = 1200
"""Nodes that have the new revision already."""
ROUNDS = 3
HASHES = ("5b6f9d7c88", "6d9c8b7f4d")
VERBS = (("status", "agent"), ("list",), ("nodes", "agent"), ("plan", "agent"), ("history", "agent"))
LISTS = ("get", "pods,nodes", "-o", "name")


@dataclass(frozen=True)
class Cost:
    seconds: float
    mebibytes: float
    """Peak of the resident memory."""


def look(binaries: Binaries, say: Callable[[str], None]) -> str:
    """A table of all verbs, beside `kubectl get pods,nodes`."""
    return asyncio.run(_look(binaries, say))


async def _look(binaries: Binaries, say: Callable[[str], None]) -> str:
    plane = ControlPlane(binaries, controllers=(), scheduler=False, users=(SCRIPT,))
    async with plane, api_for(plane, SCRIPT) as api:
        await install(plane)
        await _fill(api, say)
        kubectl = [str(plane.kubectl)]
        costs: dict[str, list[Cost]] = {}
        for _ in range(ROUNDS):
            for words in (LISTS, *(("kruise-ds", *verb) for verb in VERBS)):
                cost = await _run(plane, [*kubectl, *words, f"--namespace={NAMESPACE}"])
                costs.setdefault(" ".join(words), []).append(cost)
    return _table(costs)


async def _fill(api: Api, say: Callable[[str], None]) -> None:
    await api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    say(f"{NODES} nodes with {UPDATED} updated pods")
    await api.create_all("/api/v1/nodes", map(_node, range(NODES)))
    path = f"/apis/apps.kruise.io/v1beta1/namespaces/{NAMESPACE}/daemonsets"
    owner = await api.create(path, _daemonset())
    revisions = f"/apis/apps/v1/namespaces/{NAMESPACE}/controllerrevisions"
    await api.create_all(revisions, _revisions(owner))
    pods = list(manifests.daemon_pods(owner, NODES))
    await api.create_all(f"/api/v1/namespaces/{NAMESPACE}/pods", map(_pod, range(NODES), pods))
    await _all(api, (f"/api/v1/namespaces/{NAMESPACE}/pods/{_name(index)}/status" for index in range(NODES)))
    say("filled")


def _node(index: int) -> JSON:
    body = manifests.node(index)
    images = [
        {"names": [f"registry.k8s.io/some/image-{index}-{one}@sha256:{one:064}"], "sizeBytes": 10**8}
        for one in range(50)
    ]
    body["status"] = {"images": images, "conditions": [{"type": "Ready", "status": "True"}]}
    return body


def _daemonset() -> JSON:
    body = manifests.daemonset("apps.kruise.io/v1beta1", NAMESPACE)
    body["spec"]["template"] = manifests.template(manifests.NEXT_IMAGE)
    body["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = NODES - 2 * UPDATED
    return body


def _revisions(owner: JSON) -> Iterator[JSON]:
    for number, (image, hash_) in enumerate(
        zip((manifests.FIRST_IMAGE, manifests.NEXT_IMAGE), HASHES, strict=True), start=1
    ):
        labels = {**manifests.LABELS, "controller-revision-hash": hash_}
        metadata = {"name": f"agent-{hash_}", "labels": labels, "ownerReferences": [manifests.reference(owner)]}
        data = {"spec": {"template": {**manifests.template(image), "$patch": "replace"}}}
        yield {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": metadata,
            "data": data,
            "revision": number,
        }


def _name(index: int) -> str:
    return f"agent-{index:05}"


def _pod(index: int, body: JSON) -> JSON:
    """On its node, and of the new revision on the last nodes by name."""
    updated = index >= NODES - UPDATED
    labels = {**manifests.LABELS, "controller-revision-hash": HASHES[updated]}
    metadata = {**body["metadata"], "name": _name(index), "labels": labels}
    spec = {**body["spec"], "nodeName": manifests.node(index)["metadata"]["name"]}
    return {**body, "metadata": metadata, "spec": spec}


_RUNNING: JSON = {
    "status": {
        "phase": "Running",
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ],
        "containerStatuses": [
            {
                "name": "agent",
                "ready": True,
                "restartCount": 0,
                "image": manifests.NEXT_IMAGE,
                "imageID": f"registry.k8s.io/agent@sha256:{0:064}",
                "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            }
        ],
    }
}


async def _all(api: Api, paths: Iterator[str]) -> None:
    async def lane() -> None:
        for path in paths:
            await api.merge(path, _RUNNING)

    async with asyncio.TaskGroup() as lanes:
        for _ in range(32):
            lanes.create_task(lane())


async def _run(plane: ControlPlane, command: list[str]) -> Cost:
    """One command to its end. kubectl becomes the plugin (exec), so its memory is the plugin's."""
    path = os.pathsep.join((str(PROGRAMS), str(Path(command[0]).parent), os.environ["PATH"]))
    env = {**os.environ, "PATH": path, "KUBECONFIG": str(plane.kubeconfig), "KUBECTL_KUBERC": "false"}
    return await asyncio.to_thread(_measured, command, env)


def _measured(command: list[str], env: dict[str, str]) -> Cost:
    began = time.perf_counter()
    null = os.open(os.devnull, os.O_RDWR)
    actions = [(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, null, 1)]
    pid = os.posix_spawn(command[0], command, env, file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    os.close(null)
    seconds = time.perf_counter() - began
    code = os.waitstatus_to_exitcode(status)
    if code:
        raise RuntimeError(f"{' '.join(command)}: exit {code}")
    return Cost(seconds, usage.ru_maxrss / 1024)


def _table(costs: dict[str, list[Cost]]) -> str:
    base = median(cost.seconds for cost in costs[" ".join(LISTS)])
    lines = [f"{NODES} nodes, median of {ROUNDS}", f"{'':32}{'s':>8}{'/ kubectl get':>16}{'MiB':>8}"]
    for words, found in costs.items():
        seconds = median(cost.seconds for cost in found)
        state = max(cost.mebibytes for cost in found)
        lines.append(f"kubectl {words:24}{seconds:8.2f}{seconds / base:16.2f}{state:8.0f}")
    return "\n".join(lines)
