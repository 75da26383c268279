"""The manifests as data."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import yaml

from controller.api.base import JSON, JSONObject

MANIFESTS: Final = Path(__file__).parents[2] / "manifests"
CRD: Final = MANIFESTS / "crds" / "daemonsets.apps.kruise.io.yaml"
SAMPLES: Final = tuple(sorted((MANIFESTS / "samples").glob("*.yaml")))


def documents(text: str) -> list[JSONObject]:
    return [document for document in yaml.safe_load_all(text) if document]


def crd() -> JSONObject:
    (document,) = documents(CRD.read_text())
    return document


def schema() -> JSONObject:
    """The schema of the stored version; the other one's is the same."""
    found: JSON = crd()
    for step in ("spec", "versions", 0, "schema", "openAPIV3Schema"):
        if isinstance(found, list) and isinstance(step, int):
            found = found[step]
        else:
            assert isinstance(found, dict)
            found = found[str(step)]
    assert isinstance(found, dict)
    return found
