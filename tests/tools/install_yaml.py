"""manifests/install.yaml, for those who have the address of one file only.

make manifests                                          manifests/install.yaml
make release-manifest IMAGE=NAME:v0.1.0@sha256:…        dist/install.yaml, with the image of a release
"""

from __future__ import annotations

import argparse
import re
import subprocess
from pathlib import Path
from typing import Final

from tests.beds.control_plane import obtain
from tests.beds.manifests import MANIFESTS

INSTALL: Final = MANIFESTS / "install.yaml"
PLACEHOLDER: Final = "registry.example.com/kruise-ds"
HEADER: Final = """\
# Made by `make manifests` from manifests/overlays/default; edit the files there.
#   kubectl apply --server-side -f install.yaml
# To uninstall, delete manifests/overlays/default-without-crds, never this file: it holds the CRD, with which every
# DaemonSet and its pods go.
"""


def overlays() -> list[str]:
    """The names of all overlays."""
    return sorted(path.parent.name for path in (MANIFESTS / "overlays").glob("*/kustomization.yaml"))


def kustomized(kubectl: Path, folder: Path) -> str:
    """What `kubectl kustomize` prints for a folder. Raises RuntimeError when it fails or warns."""
    done = subprocess.run([str(kubectl), "kustomize", str(folder)], capture_output=True, text=True, timeout=60)
    if done.returncode != 0 or done.stderr:
        raise RuntimeError(f"kubectl kustomize {folder}: {done.stderr or done.returncode}")
    return done.stdout


def install_file(kubectl: Path) -> str:
    """What install.yaml should hold."""
    return HEADER + kustomized(kubectl, MANIFESTS / "overlays" / "default")


def with_image(text: str, image: str) -> str:
    """`text` with this image in the place of the placeholder. Raises ValueError.

    It has to have a digest, since a tag may be moved, and a tag, by which people and the plugin see the version.
    """
    if not re.fullmatch(r"[^\s:@]+(:\d+)?/[^\s:@]+:v[^\s:@]+@sha256:[0-9a-f]{64}", image):
        raise ValueError(f"{image!r} is not NAME:vVERSION@sha256:DIGEST")
    changed, count = re.subn(rf"(?<= image: ){re.escape(PLACEHOLDER)}:\S+", image, text)
    if count != 1:
        raise ValueError(f"the image {PLACEHOLDER} is there {count} times, not once")
    return changed


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.tools.install_yaml", description="Write install.yaml.")
    parser.add_argument("--image", help="that of a release; the file goes to dist/")
    options = parser.parse_args()
    path, text = INSTALL, install_file(obtain().kubectl)
    if options.image:
        path, text = MANIFESTS.parent / "dist" / INSTALL.name, with_image(text, options.image)
        path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    print(path)


if __name__ == "__main__":
    main()
