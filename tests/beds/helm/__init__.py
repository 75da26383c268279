"""helm, for the tests of the chart: built from its published module, and without whatever its user has set up."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.beds.control_plane.golang import obtain_go_tool


def obtain_helm() -> Path:
    """The path of helm, built when the cache has none; raises `Unavailable`."""
    return obtain_go_tool(Path(__file__).parent, "helm")


def run_helm(helm: Path, *words: str, home: Path, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
    """What helm makes of these words; what it keeps is below `home`, and without `kubeconfig` it knows no cluster."""
    folders = {f"HELM_{kind}_HOME": str(home / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
    ours = {**os.environ, **folders, "KUBECONFIG": str(kubeconfig or os.devnull)}
    return subprocess.run([str(helm), *words], env=ours, capture_output=True, text=True, timeout=120, check=False)
