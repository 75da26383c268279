"""OpenKruise's own CRD of DaemonSets, from the module that it publishes."""

from __future__ import annotations

from typing import Final

import yaml

from tests.beds.api import Object
from tests.beds.control_plane.gomodule import GoModule

FILE: Final = "config/crd/bases/apps.kruise.io_daemonsets.yaml"
MODULE: Final = GoModule(
    "github.com/openkruise/kruise", "v1.8.0", "h1:cU5XG9tur17j/CuY+iCTlxOtJ0GNTtJjMLurhh+25YQ=", (FILE,)
)


def published_crd() -> Object:
    """It has v1alpha1 only, and no conversion. Raises Unavailable where it cannot be had."""
    document: Object = yaml.safe_load((MODULE.obtain() / FILE).read_text(encoding="utf-8"))
    return document
