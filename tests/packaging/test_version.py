"""One version: pyproject.toml has it, and whatever else names it for people or for a registry names the same one."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VERSION: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
TOLD = re.compile(r"(?:kruise[-_]ds[:_-]|releases/|newTag: |VERSION=|appVersion: |\nversion: )v?(\d+\.\d+\.\d+)")
"""In the name of an image, an archive or a folder, where the version is set, and that of the chart."""
FILES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("Containerfile", ".krew.yaml", "README.md", "docs/**/*.md", "manifests/**/*.yaml")
    for path in ROOT.glob(pattern)
    if TOLD.search(path.read_text())
)


def others(text: str) -> Iterator[str]:
    for found in TOLD.finditer(text):
        if found[1] != VERSION:
            yield found[0]


def test_image_manifests_chart_and_krew_are_among_what_is_read() -> None:
    read = {
        "Containerfile",
        ".krew.yaml",
        "docs/install.md",
        "manifests/base/deployment.yaml",
        "manifests/chart/Chart.yaml",
    }
    assert read <= set(FILES)


@pytest.mark.parametrize("file", FILES)
def test_it_names_the_version_that_we_have(file: str) -> None:
    assert list(others((ROOT / file).read_text())) == []


def test_another_version_is_told() -> None:
    assert list(others(f"image: registry.example.com/kruise-ds:v{VERSION}0")) == [f"kruise-ds:v{VERSION}0"]
