"""The same manifests with each of the chart's values on and off, as kustomize builds them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from tests.beds.manifests import MANIFESTS, documents, kustomization
from tests.tools.install_yaml import kustomized

COMPONENTS: Final = {
    "podGuard": "pod-guard",
    "crdProtection": "crd-protection",
    "imagePull": "image-pull",
    "prometheus": "prometheus",
    "dashboards": "grafana",
    "metricsAuth": "metrics-auth",
    "hostNetwork": "host-network",
}
"""Values of the chart that are components, in the order in which these build on one another."""
CRDS: Final = "crds.install"
WATCHED: Final = "watchNamespace"
SEVERAL: Final = "replicas"
"""More than one."""
VALUES: Final = (*COMPONENTS, CRDS, WATCHED, SEVERAL)

On = frozenset[str]
"""Which of `VALUES` are on."""


class Name(NamedTuple):
    """What tells objects apart."""

    kind: str
    namespace: str
    name: str


def variant(kubectl: Path, on: On) -> dict[Name, str]:
    """Every object as kustomize writes it. Raises RuntimeError when it does not build."""
    rest = _without_crds(kubectl, on - {CRDS})
    return _crds(kubectl) | rest if CRDS in on else rest


@cache
def _without_crds(kubectl: Path, on: On) -> dict[Name, str]:
    with tempfile.TemporaryDirectory() as folder:
        kustomization(Path(folder), *_sources(on))
        return dict(_named(kustomized(kubectl, Path(folder))))


@cache
def _crds(kubectl: Path) -> dict[Name, str]:
    return dict(_named(kustomized(kubectl, MANIFESTS / "crds")))


def _sources(on: On) -> tuple[list[str], list[str]]:
    """The resources and the components, below manifests/, that these values stand for."""
    watched = WATCHED in on
    components = [] if watched else ["cluster-scope"]
    components += [one for value, one in COMPONENTS.items() if value in on]
    if watched and "imagePull" in on:
        components[components.index("image-pull")] = "image-pull-namespaced"
    if SEVERAL not in on:
        components.append("single-replica")
    return ["overlays/namespaced" if watched else "base"], components


def for_everybody() -> set[str]:
    """Names of what `imagePull` brings for those who use ImagePullJobs: the same for one namespace and for all."""
    folder = MANIFESTS / "components" / "image-pull"
    files = ("imagepulljobs.apps.kruise.io.yaml", "user-roles.yaml")
    return {_name(one).name for file in files for one in documents((folder / file).read_text())}


def _named(built: str) -> Iterator[tuple[Name, str]]:
    for text in built.removeprefix("---\n").split("\n---\n"):
        yield _name(yaml.safe_load(text)), text.rstrip("\n")


def _name(document: object) -> Name:
    match document:
        case {"kind": str(kind), "metadata": {"name": str(name), **metadata}}:
            return Name(kind, str(metadata.get("namespace", "")), name)
    raise ValueError(f"this is no object: {document}")
