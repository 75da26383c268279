"""One archive with all that a site without network needs; the image goes along when its archive is given.

    make bundle [IMAGE=kruise-ds-v0.1.0.oci.tar]

The wheels are for this operating system, processor and minor version of Python.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import tomllib
from pathlib import Path

from tests.beds.control_plane import obtain
from tests.tools.bundle.content import ROOT, Files, rendered, sources, with_checksums
from tests.tools.krew.__main__ import archive
from tests.tools.packages import PIP, packages


def wheels(folder: Path) -> Files:
    """Our own wheel and those of the runtime's lock, whose hashes are checked; fetched into `folder`."""
    lock = str(ROOT / "requirements-runtime.lock")
    download = ["download", "--only-binary=:all:", "--require-hashes", "--requirement", lock, "--dest", str(folder)]
    subprocess.run([*PIP, *download], check=True)
    packages(folder)
    return {f"wheelhouse/{path.name}": path.read_bytes() for path in sorted(folder.glob("*.whl"))}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.tools.bundle", description="The bundle for an air gap.")
    parser.add_argument("--folder", type=Path, default=ROOT / "dist")
    parser.add_argument("--image", type=Path, help="archive of the image, of all platforms")
    options = parser.parse_args()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    top = f"kruise-ds-{version}-bundle"
    content = {**sources(), **rendered(obtain().kubectl)}
    with tempfile.TemporaryDirectory() as folder:
        content |= wheels(Path(folder))
    if options.image:
        content[f"image/{options.image.name}"] = options.image.read_bytes()
    options.folder.mkdir(parents=True, exist_ok=True)
    path = options.folder / f"{top}.tar.gz"
    path.write_bytes(archive(with_checksums(content, top)))
    print(f"{path}\n  {len(content)} files, image: {options.image.name if options.image else 'none given'}")


if __name__ == "__main__":
    main()
