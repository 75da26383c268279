"""Where the kwok binary comes from: the cache, else the Go build of the module that go.mod here names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from tests.beds.control_plane import gobuild
from tests.beds.control_plane.binaries import ControlPlaneUnavailable
from tests.beds.control_plane.cache import Progress, cache_home, filled_whole, locked, say
from tests.beds.control_plane.sources import Source, SourceError, first_of

MODULE = Path(__file__).parent


def pinned_version() -> str:
    """The kwok version that go.mod names, such as `v0.8.0`."""
    found = re.search(r"^\s*sigs\.k8s\.io/kwok (v\S+)", (MODULE / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise LookupError("tests/beds/kwok/go.mod does not require sigs.k8s.io/kwok")
    return found[1]


def obtain_kwok(*, environ: Mapping[str, str] = os.environ, progress: Progress = say) -> Path:
    """The path of kwok, built when the cache has none; raises `ControlPlaneUnavailable` with the reasons."""
    folder = cache_home(environ) / "kwok" / pinned_version()
    if os.access(folder / "kwok", os.X_OK):
        return folder / "kwok"
    with locked(folder, progress):
        sources = [
            Source("the cache", lambda: _cached(folder)),
            Source("the Go build", lambda: _built(folder, environ, progress)),
        ]
        found, failures = first_of(sources)
    if found is None:
        raise ControlPlaneUnavailable(failures)
    return found


def _cached(folder: Path) -> Path:
    if not os.access(folder / "kwok", os.X_OK):
        raise SourceError(f"there is no {folder / 'kwok'}")
    return folder / "kwok"


def _built(folder: Path, environ: Mapping[str, str], progress: Progress) -> Path:
    progress(f"building kwok {folder.name} from source: once, about 2 minutes on two cores")
    with filled_whole(folder) as partial:
        gobuild.build(MODULE, partial, ldflags="-s -w", environ=environ, progress=progress)
        _cached(partial)
    return _cached(folder)
