"""`python -m tests.tools.image [--archive FILE]`: the image by docker or podman, else as an OCI archive."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.beds.control_plane.sources import Progress, SourceError
from tests.tools.image.archive import NAME, NoImage, revision, version, write
from tests.tools.image.containerfile import ROOT


def command() -> list[str]:
    """What docker and podman are asked to do, for the platform of the machine."""
    facts = [f"--build-arg=VERSION={version()}", f"--build-arg=REVISION={revision()}"]
    return ["build", "--file=Containerfile", *facts, f"--tag={NAME}:{version()}", "."]


def engine() -> str | None:
    """docker or podman; not one that is installed and has no daemon to ask."""
    for found in filter(None, map(shutil.which, ("docker", "podman"))):
        if subprocess.run([found, "version"], capture_output=True).returncode == 0:
            return found
    return None


def main(
    arguments: Sequence[str] | None = None,
    *,
    dist: Path = ROOT / "dist",
    write: Callable[[Path, Progress], object] = write,
) -> int:
    """Return 0, or 1 with the reason on stderr, or what the engine returned."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.image", description=__doc__)
    parser.add_argument("--archive", type=Path, help="write this file, without a container engine")
    options = parser.parse_args(arguments)
    if options.archive is None and (builder := engine()) is not None:
        return subprocess.run([builder, *command()], cwd=ROOT).returncode
    path = options.archive or dist / f"kruise-ds-{version()}.oci.tar"
    try:
        write(path, lambda line: print(f"image: {line}", file=sys.stderr, flush=True))
    except (NoImage, SourceError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
