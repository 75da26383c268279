"""prometheus-operator's CRDs, without which no ServiceMonitor applies: from its Go module."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.beds.control_plane.gomodule import GoModule

KINDS: Final = ("podmonitors", "prometheusrules", "servicemonitors")
FOLDER: Final = "example/prometheus-operator-crd"
MODULE: Final = GoModule(
    "github.com/prometheus-operator/prometheus-operator",
    "v0.92.0",
    "h1:tAbsod3+9sQsxDeAvLP27dAe9terToht5M+YdDwLGP0=",
    tuple(f"{FOLDER}/monitoring.coreos.com_{kind}.yaml" for kind in KINDS),
)


def obtain_operator_crds() -> Path:
    """The folder with one file for each of `KINDS`, and no other; raises Unavailable."""
    return MODULE.obtain() / FOLDER
