"""Manifests of Advanced DaemonSets, and what is read of them."""

from __future__ import annotations

import io
from pathlib import Path

from kubectl_plugin.cluster.manifests import Manifest, read_manifests
from kubectl_plugin.flags import ManifestOptions
from kubectl_plugin.host import Host

OURS = """\
apiVersion: apps.kruise.io/{version}
kind: DaemonSet
metadata: {{name: {name}, namespace: {namespace}}}
spec: {{template: {{metadata: {{annotations: {{day: 2026-01-31, 1: true}}}}}}}}
"""


def ours(name: str, namespace: str = "''", version: str = "v1beta1") -> str:
    return OURS.format(name=name, namespace=namespace, version=version)


def names(found: list[Manifest] | tuple[Manifest, ...]) -> list[str]:
    return [f"{one.namespace}/{one.name}" for one in found]


async def at(*files: Path, recursive: bool = False, kustomize: Path | None = None, typed: str = "") -> list[str]:
    asked = ManifestOptions(
        files=tuple(map(str, files)), recursive=recursive, kustomize=None if kustomize is None else str(kustomize)
    )
    return names((await read_manifests(asked, Host(stdin=io.StringIO(typed))))[0])
