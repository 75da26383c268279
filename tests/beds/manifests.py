"""The manifests as data."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import yaml

from controller.api.objects import JSON, JSONObject

MANIFESTS: Final = Path(__file__).parents[2] / "manifests"
CRD: Final = MANIFESTS / "crds" / "daemonsets.apps.kruise.io.yaml"
JOB_CRD: Final = MANIFESTS / "components" / "image-pull" / "imagepulljobs.apps.kruise.io.yaml"
SAMPLES: Final = tuple(sorted((MANIFESTS / "samples").glob("*.yaml")))


def documents(text: str) -> list[JSONObject]:
    return [document for document in yaml.safe_load_all(text) if document]


def overlay_with(folder: Path, overlay: str, *components: str) -> Path:
    """A kustomization in `folder`: one of our overlays and these components, as an administrator would write it."""
    return kustomization(folder, [f"overlays/{overlay}"], components)


def kustomization(folder: Path, resources: Sequence[str], components: Sequence[str]) -> Path:
    """One in `folder`, of these resources below manifests/ and these components."""
    outside = {"resources": resources, "components": [f"components/{one}" for one in components]}
    paths = {
        kind: [os.path.relpath(MANIFESTS / one, folder.resolve()) for one in ones] for kind, ones in outside.items()
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(paths))
    return folder


def crd(file: Path = CRD) -> JSONObject:
    (document,) = documents(file.read_text())
    return document


def schema(file: Path = CRD) -> JSONObject:
    """The schema of the stored version; the other one's is the same."""
    found: JSON = crd(file)
    for step in ("spec", "versions", 0, "schema", "openAPIV3Schema"):
        if isinstance(found, list) and isinstance(step, int):
            found = found[step]
        else:
            assert isinstance(found, dict)
            found = found[str(step)]
    assert isinstance(found, dict)
    return found
