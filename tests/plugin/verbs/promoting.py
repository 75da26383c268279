"""`promote` in a scene, and what it wrote there."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.beds.api import DAEMONSETS, Object
from tests.plugin.scene import NAME, NAMESPACE, Ran, Scene

WHERE = f"{NAME} -n {NAMESPACE}"
LINE = f"daemonset.apps.kruise.io/{NAME}"


def promote(scene: Scene, *arguments: str, **options: Any) -> Ran:
    return scene.run("promote", NAME, "-n", NAMESPACE, *arguments, **options)


def live(scene: Scene) -> Object:
    return scene.do(scene.api.get(DAEMONSETS, NAME))


def partition(scene: Scene) -> object:
    return live(scene)["spec"]["updateStrategy"]["rollingUpdate"]["partition"]


def written(scene: Scene) -> list[list[Object]]:
    """The patches of DaemonSets that the plugin sent."""
    sent = scene.door.link.writes("daemonsets.apps.kruise.io")
    return [msgspec.json.decode(one.request.body or b"") for one in sent]


def done(one: Object) -> object:
    return one["status"]["rollout"]["done"]
