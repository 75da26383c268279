"""`plan` of the sample DaemonSet, and of manifests as people keep them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import yaml

from tests.beds.api import Object
from tests.plugin.scene import NAME, NAMESPACE, Ran, Scene, daemonset, template

HERE = ("-n", NAMESPACE)


def plan(scene: Scene, *words: str, **options: Any) -> Ran:
    return scene.run("plan", NAME, *HERE, *words, **options)


def document(scene: Scene, *words: str) -> Any:
    ran = plan(scene, *words, "-o", "json")
    assert (ran.code, ran.err) == (0, "")
    return msgspec.json.decode(ran.out)


def waves(found: Any) -> list[list[str]]:
    return [[move["node"] for move in wave["moves"]] for wave in found["waves"]]


def written(tmp_path: Path, *manifests: Object) -> str:
    path = tmp_path / "manifests.yaml"
    path.write_text(yaml.safe_dump_all(manifests))
    return str(path)


def manifest(version: str = "1.9.0", name: str = NAME, **rolling: Any) -> Object:
    """As a person keeps it in Git."""
    found = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", **daemonset(**rolling)}
    found["metadata"] = {"name": name, "namespace": NAMESPACE}
    found["spec"] = {**found["spec"], "template": template(version)}
    return found
