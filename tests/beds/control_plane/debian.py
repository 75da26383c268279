"""Programs out of Debian's packages, unpacked into a folder and not installed: needs no rights."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.beds.control_plane.cache import Progress
from tests.beds.control_plane.sources import SourceError

PATIENCE = 180.0
"""Seconds for one call of apt: 19 MB, or all lists of packages."""


def unpack(packages: Sequence[str], into: Path, progress: Progress) -> Mapping[str, str]:
    """Download `packages`, without what they depend on, unpack them into `into`, and give their versions by name.

    Raises `SourceError`.
    """
    with tempfile.TemporaryDirectory(prefix="kruise-ds-debian-") as temporary:
        folder = Path(temporary)
        progress(f"downloading {', '.join(packages)} from Debian: once")
        _download(packages, folder)
        versions = {}
        for archive in folder.glob("*.deb"):
            name = _run("dpkg-deb", "--field", str(archive), "Package", folder=folder).strip()
            versions[name] = _run("dpkg-deb", "--field", str(archive), "Version", folder=folder).strip()
            _run("dpkg-deb", "--extract", str(archive), str(into), folder=folder)
        return versions


def _download(packages: Sequence[str], folder: Path) -> None:
    """Where the machine's lists do not have them, with lists of our own."""
    as_we_are = "-oAPT::Sandbox::User=root"  # the folder is ours alone, and apt's own user may not look into it
    try:
        _run("apt-get", as_we_are, "--quiet", "download", *packages, folder=folder)
    except SourceError:
        lists = folder / "lists"
        (lists / "partial").mkdir(parents=True)
        own = [f"-oDir::State::Lists={lists}", f"-oDir::Cache={folder / 'cache'}"]
        _run("apt-get", *own, "--quiet", "update", folder=folder)
        _run("apt-get", as_we_are, *own, "--quiet", "download", *packages, folder=folder)


def _run(*command: str, folder: Path) -> str:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=True)
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().splitlines() or [f"exit code {error.returncode}"]
        raise SourceError(f"{command[0]}: {said[-1]}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SourceError(f"{command[0]}: {error}") from error
    return done.stdout
