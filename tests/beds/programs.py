"""Programs that a test puts on the PATH."""

from __future__ import annotations

from pathlib import Path


def program(folder: Path, name: str, script: str = "") -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)
