"""OpenKruise's own CRDs, from the module that it publishes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import yaml

from tests.beds.api import Object
from tests.beds.control_plane.gomodule import GoModule

FOLDER: Final = "config/crd/bases"
FILE: Final = "apps.kruise.io_daemonsets.yaml"
LIST: Final = "config/crd/kustomization.yaml"
"""Not in a cache that an earlier version has filled, with one CRD."""
MODULE: Final = GoModule(
    "github.com/openkruise/kruise", "v1.8.0", "h1:cU5XG9tur17j/CuY+iCTlxOtJ0GNTtJjMLurhh+25YQ=", (FOLDER, LIST)
)


def published_crd() -> Object:
    """It has v1alpha1 only, and no conversion. Raises Unavailable where it cannot be had."""
    document: Object = yaml.safe_load((MODULE.obtain() / FOLDER / FILE).read_text(encoding="utf-8"))
    return document


def other_crds() -> list[Path]:
    """All but that of DaemonSets. Raises Unavailable."""
    return [path for path in sorted((MODULE.obtain() / FOLDER).glob("*.yaml")) if path.name != FILE]
