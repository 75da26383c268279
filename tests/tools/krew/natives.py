"""Modules that no Python can do without and that are compiled for each minor version: fetched for all of them."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from tests.beds.control_plane.sources import cache_home, locked

ROOT = Path(__file__).resolve().parents[3]
LOCK = ROOT / "requirements-runtime.lock"
MINORS = (11, 12, 13, 14, 15)
"""The minor versions of Python 3 for which there are wheels of `NATIVE`. When a new one comes:
docs/design/commands.md."""
NATIVE = ("msgspec", "pydantic-core")
"""The other dependencies with compiled modules do without them, more slowly."""
COMPILED = (".so", ".pyd", ".dylib")


class NoWheelError(Exception):
    """A wheel is not to be had; the message says which, and what pip says."""


def natives() -> Mapping[str, bytes]:
    """The compiled modules by path, for every minor version on this operating system and processor. They go beside
    each other: the file's name says for which one it is.

    Wheels come from the package index once, and are checked against the lock. Raises NoWheelError.
    """
    folder = cache_home() / "wheels"
    with locked(folder):
        wheels = [_wheel(folder, name, minor) for name in NATIVE for minor in MINORS]
    found: dict[str, bytes] = {}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as inside:
            found |= {name: inside.read(name) for name in inside.namelist() if name.endswith(COMPILED)}
    return found


def _wheel(folder: Path, name: str, minor: int) -> Path:
    version = metadata.version(name)
    pattern = f"{name.replace('-', '_')}-{version}-cp3{minor}-cp3{minor}-*.whl"
    if not (there := sorted(folder.glob(pattern))):
        folder.mkdir(exist_ok=True)
        _fetch(folder, name, version, minor)
        there = sorted(folder.glob(pattern))
    return there[0]


def _fetch(folder: Path, name: str, version: str, minor: int) -> None:
    pinned = re.search(rf"^{name}=={re.escape(version)} (\\\n +--hash=\S+ ?)+", LOCK.read_text(), re.MULTILINE)
    if pinned is None:
        raise NoWheelError(f"{name} {version} is not the one of {LOCK.name}: make setup")
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as wanted:
        wanted.write(pinned[0])
        wanted.flush()
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download", "--no-deps"]
        which = [f"--python-version=3.{minor}", "--only-binary=:all:", "--require-hashes"]
        done = subprocess.run(
            [*pip, *which, f"--dest={folder}", f"--requirement={wanted.name}"], capture_output=True, text=True
        )
    if done.returncode:
        raise NoWheelError(f"no wheel of {name} {version} for Python 3.{minor}: {done.stderr.strip()}")
