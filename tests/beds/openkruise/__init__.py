"""OpenKruise's own CRD of DaemonSets, from the module that it publishes: none of it is kept here."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from tests.beds.api import Object
from tests.beds.control_plane.binaries import ControlPlaneUnavailable
from tests.beds.control_plane.golang import find_go
from tests.beds.control_plane.sources import Progress, SourceError, cache_home, filled_whole, locked, say

MODULE: Final = "github.com/openkruise/kruise"
VERSION: Final = "v1.8.0"
SUM: Final = "h1:cU5XG9tur17j/CuY+iCTlxOtJ0GNTtJjMLurhh+25YQ="
"""Of the module, as Go writes it in a go.sum."""
FILE: Final = Path("config") / "crd" / "bases" / "apps.kruise.io_daemonsets.yaml"
SECONDS: Final = 300.0


def published_crd(*, environ: Mapping[str, str] = os.environ, progress: Progress = say) -> Object:
    """It has v1alpha1 only, and no conversion. Raises ControlPlaneUnavailable where it cannot be had."""
    folder = cache_home(environ) / "openkruise" / VERSION
    kept = folder / FILE.name
    if not kept.exists():
        with locked(folder, progress):
            if not kept.exists():
                try:
                    _fetch(folder, environ, progress)
                except SourceError as reason:
                    raise ControlPlaneUnavailable([f"the Go module: {reason}"]) from reason
    document: Object = yaml.safe_load(kept.read_text(encoding="utf-8"))
    return document


def _fetch(folder: Path, environ: Mapping[str, str], progress: Progress) -> None:
    """Raises SourceError."""
    go = find_go(environ, progress)
    command = [str(go), "mod", "download", "-json", f"{MODULE}@{VERSION}"]
    progress(f"fetching {MODULE} {VERSION}: once, some seconds")
    ours = {**environ, "GOWORK": "off", "GO111MODULE": "on"}
    with filled_whole(folder) as partial:
        done = subprocess.run(command, cwd=partial, env=ours, capture_output=True, text=True, timeout=SECONDS)
        told: Any = msgspec.json.decode(done.stdout or "{}")
        if done.returncode != 0:
            raise SourceError(f"go mod download: {told.get('Error') or done.stderr.strip()}")
        if told["Sum"] != SUM:
            raise SourceError(f"{MODULE} {VERSION} is another one than it was: {told['Sum']}")
        (partial / FILE.name).write_text((Path(told["Dir"]) / FILE).read_text(encoding="utf-8"), encoding="utf-8")
