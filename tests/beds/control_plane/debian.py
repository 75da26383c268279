"""Programs out of Debian's packages, unpacked into a folder and not installed: needs no rights."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from tests.beds.control_plane.cache import Progress
from tests.beds.control_plane.sources import SourceError

PATIENCE = 180.0
"""Seconds for one call of apt: 19 MB, or all lists of packages."""


def unpack(
    packages: Sequence[str], into: Path, progress: Progress, environ: Mapping[str, str] = os.environ
) -> Mapping[str, str]:
    """Download `packages`, without what they depend on, unpack them into `into`, and give their versions by name.

    Raises `SourceError`.
    """
    with tempfile.TemporaryDirectory(prefix="kruise-ds-debian-") as temporary:
        folder = Path(temporary)
        progress(f"downloading {', '.join(packages)} from Debian: once")
        _download(packages, folder, environ)
        versions = {}
        run = partial(_run, folder=folder, environ=environ)
        for archive in folder.glob("*.deb"):
            name = run("dpkg-deb", "--field", str(archive), "Package").strip()
            versions[name] = run("dpkg-deb", "--field", str(archive), "Version").strip()
            run("dpkg-deb", "--extract", str(archive), str(into))
        return versions


def _download(packages: Sequence[str], folder: Path, environ: Mapping[str, str]) -> None:
    """Where the machine's lists do not have them, with lists of our own."""
    as_we_are = "-oAPT::Sandbox::User=root"  # the folder is ours alone, and apt's own user may not look into it
    try:
        _run("apt-get", as_we_are, "--quiet", "download", *packages, folder=folder, environ=environ)
    except SourceError:
        lists = folder / "lists"
        (lists / "partial").mkdir(parents=True)
        own = [f"-oDir::State::Lists={lists}", f"-oDir::Cache={folder / 'cache'}"]
        _run("apt-get", *own, "--quiet", "update", folder=folder, environ=environ)
        _run("apt-get", as_we_are, *own, "--quiet", "download", *packages, folder=folder, environ=environ)


def _run(*command: str, folder: Path, environ: Mapping[str, str]) -> str:
    program = shutil.which(command[0], path=environ.get("PATH", ""))
    try:
        if program is None:
            raise FileNotFoundError("not on the PATH")
        done = subprocess.run(
            [program, *command[1:]],
            env=environ,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().splitlines() or [f"exit code {error.returncode}"]
        raise SourceError(f"{command[0]}: {said[-1]}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SourceError(f"{command[0]}: {error}") from error
    return done.stdout
