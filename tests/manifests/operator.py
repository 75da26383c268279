"""prometheus-operator's CRDs, without which no ServiceMonitor applies: from its Go module, kept in the cache."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.beds.control_plane.binaries import ControlPlaneUnavailable
from tests.beds.control_plane.golang import find_go
from tests.beds.control_plane.sources import (
    Progress,
    Source,
    SourceError,
    cache_home,
    filled_whole,
    first_of,
    locked,
    say,
)

MODULE: Final = "github.com/prometheus-operator/prometheus-operator"
VERSION: Final = "v0.92.0"
CHECKSUM: Final = "h1:tAbsod3+9sQsxDeAvLP27dAe9terToht5M+YdDwLGP0="
"""Of the module, as a go.sum would have it."""
KINDS: Final = ("podmonitors", "prometheusrules", "servicemonitors")


def obtain_operator_crds(*, environ: Mapping[str, str] = os.environ, progress: Progress = say) -> Path:
    """The folder with one file for each of `KINDS`; raises `ControlPlaneUnavailable` with the reasons."""
    folder = cache_home(environ) / "prometheus-operator" / VERSION
    with locked(folder, progress):
        found, failures = first_of(
            [
                Source("the cache", lambda: _cached(folder)),
                Source("the Go module", lambda: _fetched(folder, environ, progress)),
            ]
        )
    if found is None:
        raise ControlPlaneUnavailable(failures)
    return found


def _cached(folder: Path) -> Path:
    missing = [kind for kind in KINDS if not (folder / f"{kind}.yaml").exists()]
    if missing:
        raise SourceError(f"{folder} has no {', '.join(missing)}")
    return folder


def _fetched(folder: Path, environ: Mapping[str, str], progress: Progress) -> Path:
    go = find_go(environ, progress)
    progress(f"fetching {MODULE} {VERSION}")
    command = [str(go), "mod", "download", "-json", f"{MODULE}@{VERSION}"]
    ours = {**environ, "GOWORK": "off", "GOFLAGS": "-mod=mod"}
    done = subprocess.run(command, cwd=folder.parent, env=ours, capture_output=True, text=True, timeout=300)
    try:
        told = json.loads(done.stdout)
    except ValueError as error:
        raise SourceError(f"go mod download: {done.stderr.strip() or done.returncode}") from error
    if told.get("Error"):
        raise SourceError(f"go mod download: {told['Error']}")
    if told["Sum"] != CHECKSUM:
        raise SourceError(f"{MODULE} {VERSION} has the checksum {told['Sum']}, not {CHECKSUM}")
    with filled_whole(folder) as partial:
        for kind in KINDS:
            source = Path(told["Dir"]) / "example" / "prometheus-operator-crd" / f"monitoring.coreos.com_{kind}.yaml"
            shutil.copyfile(source, partial / f"{kind}.yaml")
    return _cached(folder)
