"""Where prometheus and promtool come from: the PATH, the cache, or Debian's package, unpacked and not installed."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.beds.control_plane.sources import (
    Source,
    SourceError,
    Unavailable,
    cache_home,
    filled_whole,
    first_of,
    locked,
    unpack,
)

PACKAGE = "prometheus"
NAMES = ("prometheus", "promtool")


@dataclass(frozen=True, slots=True)
class Binaries:
    """Both executables, of one version."""

    prometheus: Path
    promtool: Path


def obtain(*, environ: Mapping[str, str] = os.environ) -> Binaries:
    """Find both on the PATH or in the cache, else download Debian's package into the cache.

    Needs no rights: the package is only unpacked. Raises `Unavailable`.
    """
    home = cache_home(environ) / PACKAGE
    cache = Source("the cache", lambda: _cached(home))
    found, failures = first_of([Source("the PATH", lambda: _on_path(environ)), cache])
    if found:
        return found
    with locked(home / "download", _say):
        found, more = first_of([cache, Source(f"Debian's package {PACKAGE}", lambda: _downloaded(home, environ))])
    if found:
        return found
    raise Unavailable("prometheus and promtool", failures + more[1:])


def _on_path(environ: Mapping[str, str]) -> Binaries:
    found = [shutil.which(name, path=environ.get("PATH", "")) for name in NAMES]
    missing = [name for name, path in zip(NAMES, found, strict=True) if path is None]
    if missing:
        raise SourceError(f"no {' and no '.join(missing)}")
    return Binaries(*(Path(path) for path in found if path))


def _cached(home: Path) -> Binaries:
    """The newest that was unpacked here; `filled_whole` hides one that is not whole."""
    whole = [path.parent for path in home.glob(f"[!.]*/{NAMES[0]}") if os.access(path.with_name(NAMES[1]), os.X_OK)]
    if not whole:
        raise SourceError(f"there is nothing in {home}")
    newest = max(whole, key=lambda folder: folder.stat().st_mtime)
    return Binaries(*(newest / name for name in NAMES))


def _downloaded(home: Path, environ: Mapping[str, str]) -> Binaries:
    with tempfile.TemporaryDirectory(prefix="kruise-ds-prometheus-") as temporary:
        version = unpack([PACKAGE], Path(temporary), _say, environ)[PACKAGE]
        with filled_whole(home / version) as partial:
            for name in NAMES:
                shutil.copy2(Path(temporary, "usr/bin", name), partial / name)
    return _cached(home)


def _say(line: str) -> None:
    print(f"{PACKAGE}: {line}", file=sys.stderr, flush=True)
