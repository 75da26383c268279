"""What the plugin's looking verbs cost on a large cluster: wall time and memory, beside kubectl's own lists.

Nodes and pods are as large as real ones (a kubelet reports up to 50 images), on a real API server, in the middle of a
rollout. No controller and no kwok run: everything stands still while it is looked at.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

from tests.beds.control_plane import Binaries, ControlPlane
from tests.beds.control_plane.access import run_to_end
from tests.beds.installed.plugin import PROGRAMS
from tests.tools.bench import manifests, proc
from tests.tools.bench.api import JSON, Api, api_for, in_lanes
from tests.tools.bench.bed import NAMESPACE, SCRIPT, install
from tests.tools.bench.figures import Figure, Values

UPDATED = 0.24
"""The part of the nodes that have the new revision already."""
ROUNDS = 3
HASHES = ("5b6f9d7c88", "6d9c8b7f4d")
VERBS = ("status agent", "list", "nodes agent", "plan agent", "history agent")
LISTS = "get pods,nodes -o name"
SECONDS = {verb: Figure(f"kubectl kruise-ds {verb} (s)", {1000: 5}) for verb in VERBS}
MEMORY = {verb: Figure(f"kubectl kruise-ds {verb}, peak (MiB)", {1000: 150}) for verb in VERBS}


async def look(binaries: Binaries, nodes: int, values: Values, say: Callable[[str], None]) -> None:
    """Measure all verbs, and `kubectl get pods,nodes`."""
    plane = ControlPlane(binaries, controllers=(), scheduler=False, users=(SCRIPT,))
    async with plane, api_for(plane, SCRIPT) as api:
        await install(plane)
        updated = int(nodes * UPDATED)
        say(f"the plugin: {nodes} nodes with {updated} updated pods")
        await _fill(api, nodes, updated)
        say("filled")
        for verb in VERBS * ROUNDS:
            for peer, words in (("kubectl get", LISTS), ("ours", f"kruise-ds {verb}")):
                cost = await _run(plane, words.split())
                for figure, value in zip((SECONDS[verb], MEMORY[verb]), cost, strict=True):
                    values[figure][peer].append(value)


async def _fill(api: Api, nodes: int, updated: int) -> None:
    await api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    await api.create_all("/api/v1/nodes", map(_node, range(nodes)))
    path = f"/apis/apps.kruise.io/v1beta1/namespaces/{NAMESPACE}/daemonsets"
    owner = await api.create(path, _daemonset(nodes - 2 * updated))
    revisions = f"/apis/apps/v1/namespaces/{NAMESPACE}/controllerrevisions"
    await api.create_all(revisions, _revisions(owner))
    collection, bodies = f"/api/v1/namespaces/{NAMESPACE}/pods", manifests.daemon_pods(owner, range(nodes))
    pods = (_pod(index, body, index >= nodes - updated) for index, body in enumerate(bodies))
    await api.create_all(collection, pods)
    await in_lanes(lambda index: api.merge(f"{collection}/{_name(index)}/status", _RUNNING), range(nodes))


def _node(index: int) -> JSON:
    body = manifests.node(index)
    images = [
        {"names": [f"registry.k8s.io/some/image-{index}-{one}@sha256:{one:064}"], "sizeBytes": 10**8}
        for one in range(50)
    ]
    body["status"] = {"images": images, "conditions": [{"type": "Ready", "status": "True"}]}
    return body


def _daemonset(partition: int) -> JSON:
    body = manifests.daemonset("apps.kruise.io/v1beta1", NAMESPACE)
    body["spec"]["template"] = manifests.template(manifests.NEXT_IMAGE)
    body["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = partition
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


def _pod(index: int, body: JSON, updated: bool) -> JSON:
    """On its node."""
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


async def _run(plane: ControlPlane, words: list[str]) -> tuple[float, ...]:
    """One command to its end: seconds, and MiB. kubectl becomes the plugin (exec), so its memory is the plugin's."""
    path = os.pathsep.join((str(PROGRAMS), str(plane.kubectl.parent), os.environ["PATH"]))
    env = {**os.environ, "PATH": path, "KUBECONFIG": str(plane.kubeconfig), "KUBECTL_KUBERC": "false"}
    command = [sys.executable, proc.__file__, str(plane.kubectl), *words, f"--namespace={NAMESPACE}"]
    code, out, err = await run_to_end(command, env, seconds=600)
    if code:
        raise RuntimeError(f"kubectl {' '.join(words)}: {err}")
    return tuple(map(float, out.split()))
