"""The files of the chart that are made of others."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.beds.manifests import MANIFESTS
from tests.tools.chart.templates import templates
from tests.tools.chart.values import values

CHART: Final = MANIFESTS / "chart"


def made(kubectl: Path) -> dict[Path, str]:
    """Each with what has to be in it."""
    files = {CHART / "templates" / name: text for name, text in templates(kubectl).items()}
    return {CHART / "values.yaml": values(kubectl), **files}


def stale(files: dict[Path, str]) -> list[Path]:
    """Templates of kinds that are no longer there."""
    return [path for path in (CHART / "templates").glob("*.yaml") if path not in files]
