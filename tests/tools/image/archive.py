"""The image as an OCI archive, made without a container engine: the same bytes from the same packages and sources."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from tests.beds.control_plane.sources import Progress
from tests.beds.oci import Image, image, layer_of, write_archive
from tests.tools.image import base, programs
from tests.tools.image.containerfile import ROOT, config_of, stages

NAME = "registry.example.com/kruise-ds"


class NoImage(Exception):
    """It cannot be made here; the message says why."""


def version() -> str:
    return f"v{tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']['version']}"


def revision() -> str:
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):  # the sources may have come as an archive
        return "unknown"
    return done.stdout.strip()


def build(progress: Progress) -> Image:
    """About a minute: it fetches Debian's packages and those of the lock. Raises `NoImage`, `SourceError`."""
    if sys.version_info[:2] != (3, 11) or sys.platform != "linux":
        raise NoImage("the image's Python is 3.11 on Linux, and what it runs has to be made by the same")
    with tempfile.TemporaryDirectory(prefix="kruise-ds-image-") as folder:
        layers = []
        for name, fill in (("base", _base), ("programs", _programs)):
            root = Path(folder, name)
            root.mkdir()
            fill(root, Path(folder), progress)
            layers.append(layer_of(root))
    final = stages((ROOT / "Containerfile").read_text())[-1]
    return image(layers, **config_of(final, VERSION=version(), REVISION=revision()))


def _base(root: Path, _: Path, progress: Progress) -> None:
    base.lay(root, progress)
    programs.compiled(root / "usr/lib/python3.11", root)


def _programs(root: Path, folder: Path, progress: Progress) -> None:
    progress("installing what the lock names")
    (folder / "work").mkdir()
    made = programs.install(root, folder / "work")
    programs.compiled(made / "lib", root)


def write(path: Path, progress: Progress) -> Path:
    """Into the archive `path`, under the name that the manifests ask for."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_archive(path, {f"{NAME}:{version()}": build(progress)})
