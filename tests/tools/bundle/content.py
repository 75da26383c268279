"""What goes into the bundle for a site without network, by path, but for the wheels and the image."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.tools.install_yaml import kustomized, overlays

ROOT: Final = Path(__file__).parents[3]
FOLDERS: Final = ("manifests", "docs")
FILES: Final = ("LICENSE", "README.md", "SECURITY.md", "requirements-runtime.lock")

Files = Mapping[str, bytes]
"""Content by path inside the bundle."""


def sources() -> Files:
    """The manifests, so that `kubectl apply -k` works offline, with alerts and dashboards, and the manuals."""
    paths = [ROOT / name for name in FILES]
    for folder in FOLDERS:
        paths += [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    return {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in paths}


def rendered(kubectl: Path) -> Files:
    """Every overlay as one file, for those who may not or will not build it themselves."""
    folder = ROOT / "manifests" / "overlays"
    return {f"rendered/{name}.yaml": kustomized(kubectl, folder / name).encode() for name in overlays()}


def with_checksums(content: Files, top: str) -> Files:
    """All of `content` below the folder `top`, and there SHA256SUMS, which `sha256sum --check` reads."""
    lines = (f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(content.items()))
    whole = {**content, "SHA256SUMS": "".join(lines).encode()}
    return {f"{top}/{name}": data for name, data in whole.items()}
