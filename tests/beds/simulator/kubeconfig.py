"""A kubeconfig for a server that asks nobody who they are."""

from __future__ import annotations

import json
from pathlib import Path


def write_kubeconfig(path: Path, url: str) -> None:
    """Write it as JSON, which is YAML too."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "simulator", "cluster": {"server": url}}],
        "users": [{"name": "anybody", "user": {}}],
        "contexts": [{"name": "simulator", "context": {"cluster": "simulator", "user": "anybody"}}],
        "current-context": "simulator",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(config, indent=2) + "\n")
