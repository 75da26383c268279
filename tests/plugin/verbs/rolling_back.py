"""`rollback` in a scene, and the pods before and after it."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from tests.beds.api import DAEMONSETS, PODS, Object
from tests.plugin.scene import NAME, NAMESPACE, PACE, Ran, Scene

BAD = ("c-08", "c-07", "c-06", "c-05", "c-04", "c-03")
"""The nodes that have revision 7 in the canary."""


class Seen(NamedTuple):
    name: str
    uid: str
    image: str


def rollback(scene: Scene, *arguments: str, **options: Any) -> Ran:
    """Where nobody is asked, with -y."""
    agreed = () if options.get("terminal") else ("-y",)
    return scene.run("rollback", NAME, "-n", NAMESPACE, *arguments, *agreed, **options)


def live(scene: Scene) -> Object:
    return scene.do(scene.api.get(DAEMONSETS, NAME))


def pods(scene: Scene) -> dict[str, Seen]:
    """The live pod of each node."""
    return {pod["spec"]["nodeName"]: as_seen(pod) for pod in live_pods(scene)}


def live_pods(scene: Scene) -> list[Object]:
    return [pod for pod in scene.do(scene.api.list(PODS)) if not pod["metadata"].get("deletionTimestamp")]


def as_seen(pod: Object) -> Seen:
    meta, image = pod["metadata"], pod["spec"]["containers"][0]["image"]
    return Seen(meta["name"], meta["uid"], image.rpartition(":")[2])


def settle(scene: Scene) -> None:
    """Every node gets well, and the controller has nothing left to do."""
    for name in ("*", *BAD):
        scene.nodes.behave(name, PACE)
    scene.do(scene.until(lambda one: one["status"]["observedGeneration"] == one["metadata"]["generation"]))
    scene.do(scene.until(lambda one: one["status"]["rollout"]["phase"] in ("Healthy", "Held", "Paused", "Manual")))


def moved(before: dict[str, Seen], after: dict[str, Seen]) -> set[str]:
    """Nodes that have another pod than before."""
    return {node for node in before.keys() | after.keys() if before.get(node) != after.get(node)}


def written(scene: Scene) -> list[list[Object]]:
    """The patches of DaemonSets that the plugin sent, dry runs left out."""
    sent = scene.door.link.writes("daemonsets.apps.kruise.io")
    return [
        msgspec.json.decode(one.request.body or b"") for one in sent if ("dryRun", "All") not in one.request.query
    ]
