"""manifests/install.yaml, for those who have the address of one file only.

make manifests
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from tests.beds.control_plane import obtain
from tests.beds.manifests import MANIFESTS

INSTALL: Final = MANIFESTS / "install.yaml"
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


if __name__ == "__main__":
    INSTALL.write_text(install_file(obtain().kubectl))
    print(INSTALL)
