"""A native DaemonSet on the simulator, and as much of its controller as changing sides needs."""

from __future__ import annotations

import asyncio

from tests.beds.api import DAEMONSETS, MERGE_PATCH, PODS, REVISIONS, Object, Refusal
from tests.beds.native import NATIVE
from tests.beds.objects import controller_of, is_live, owner
from tests.plugin.kept import story
from tests.plugin.playing import Scene
from tests.plugin.scene import daemonset_named, join
from tests.plugin.verbs.few_nodes import NODES

HASHES = {"1.8.0": "5d7f9c8b6d", "1.8.1": "6c9f7d5b8c"}
STRATEGY = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
NAME = "node-agent"


@story
def native_nodes(scene: Scene, /, *names: str, old: int = 0, **metadata: object) -> None:
    """Native DaemonSets on four nodes, of which `old` have still the first revision."""
    scene.do(join(scene, NODES))
    for name in names or (NAME,):
        scene.do(deploy(scene, name, old, **metadata))
    scene.pass_time(120.0)


async def deploy(scene: Scene, name: str, old: int = 0, **metadata: object) -> None:
    """On the four nodes, and its controller has seen it."""
    document = daemonset_named(name)
    document["metadata"] |= metadata
    document["spec"]["updateStrategy"] = STRATEGY
    versions = {version: _template(name, version) for version in HASHES}
    document["spec"]["template"] = versions["1.8.1"]
    made = await scene.api.create(NATIVE, document)
    for number, (version, template) in enumerate(versions.items(), 1):
        body = {
            "metadata": _owned(made, name, version, name=f"{name}-{HASHES[version]}"),
            "data": {"spec": {"template": {**template, "$patch": "replace"}}},
            "revision": number,
        }
        await scene.api.create(REVISIONS, body)
    for number, node in enumerate(NODES):
        version = "1.8.0" if number < old else "1.8.1"
        pod = {
            "metadata": _owned(made, name, version, name=f"{name}-x{number}"),
            "spec": {**versions[version]["spec"], "nodeName": node},
        }
        await scene.api.create(PODS, pod)
    await _look(scene)


def _template(name: str, version: str) -> Object:
    template: Object = daemonset_named(name)["spec"]["template"]
    template["spec"]["containers"][0]["image"] = f"registry.example.com/agent:{version}"
    return template


def _owned(made: Object, app: str, version: str, *, name: str) -> Object:
    labels = {"app": app, "controller-revision-hash": HASHES[version]}
    return {"name": name, "labels": labels, "ownerReferences": [owner(made)]}


async def acts(scene: Scene) -> None:
    """Until cancelled: it looks at what there is, and takes over what has no controller."""
    while True:
        await asyncio.sleep(1.0)
        await _look(scene)


async def _look(scene: Scene) -> None:
    for one in await scene.api.list(NATIVE):
        if one["metadata"].get("deletionTimestamp"):
            continue
        typed = {**one, "apiVersion": NATIVE.api_version, "kind": NATIVE.kind}  # which the items of a list are not
        for kind in (PODS, REVISIONS):
            for found in await scene.api.list(kind):
                if not controller_of(found) and found["metadata"]["labels"]["app"] == one["metadata"]["name"]:
                    adopted = {"metadata": {"ownerReferences": [owner(typed)]}}
                    await scene.api.patch(kind, found["metadata"]["name"], adopted, content_type=MERGE_PATCH)
        status = {"status": {"observedGeneration": one["metadata"]["generation"], **await _counted(scene, one)}}
        try:
            await scene.api.patch(NATIVE, one["metadata"]["name"], status, sub="status", content_type=MERGE_PATCH)
        except Refusal:  # deleted meanwhile
            continue


async def _counted(scene: Scene, one: Object) -> Object:
    """Its nodes with a pod of the newest revision."""
    revisions = [found for found in await scene.api.list(REVISIONS) if _is_of(one, found)]
    newest = max(revisions, key=lambda found: found["revision"], default=None)
    current = [found for found in await scene.api.list(PODS) if _is_of(one, found) and is_live(found)]
    hashes = [found["metadata"]["labels"]["controller-revision-hash"] for found in current]
    number = hashes.count(newest["metadata"]["labels"]["controller-revision-hash"]) if newest else 0
    return {"updatedNumberScheduled": number}


def _is_of(one: Object, found: Object) -> bool:
    return bool(controller_of(found).get("uid") == one["metadata"]["uid"])


def pods(scene: Scene) -> dict[str, tuple[str, str]]:
    """Of each live pod the node, and what changes when it is touched in more than its owner."""
    found = [one for one in scene.do(scene.api.list(PODS)) if is_live(one)]
    assert len({one["spec"]["nodeName"] for one in found}) == len(found)
    return {
        one["spec"]["nodeName"]: (one["metadata"]["uid"], one["metadata"]["labels"]["controller-revision-hash"])
        for one in found
    }


def owners(scene: Scene) -> set[str]:
    """Of all pods: the apiVersion of who controls them."""
    return {str(controller_of(one).get("apiVersion", "nobody")) for one in scene.do(scene.api.list(PODS))}


def theirs(scene: Scene) -> dict[str, Object]:
    """The native DaemonSets by name."""
    return {one["metadata"]["name"]: one for one in scene.do(scene.api.list(NATIVE))}


def ours(scene: Scene) -> dict[str, Object]:
    return {one["metadata"]["name"]: one for one in scene.do(scene.api.list(DAEMONSETS))}
