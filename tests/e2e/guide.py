"""The commands of the documents, by section: what people are told to type is what the tests run."""

from __future__ import annotations

import re
from pathlib import Path

from tests.beds.manifests import MANIFESTS

DOCS = MANIFESTS.parent / "docs"
GUIDE = DOCS / "upgrade.md"
MIGRATION = DOCS / "migrate.md"
MAINTENANCE = DOCS / "node-maintenance.md"
SECTION = re.compile(r"^## (.*)$", re.MULTILINE)
BLOCK = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def sections(guide: Path = GUIDE) -> dict[str, list[list[str]]]:
    """Title to the section's blocks, each as its lines."""
    _, *parts = SECTION.split(guide.read_text())
    texts = zip(parts[::2], parts[1::2], strict=True)
    return {title: [block.splitlines() for block in BLOCK.findall(text)] for title, text in texts}


def commands(title: str, guide: Path = GUIDE) -> list[str]:
    """The commands of the one section whose title begins so."""
    (blocks,) = [blocks for full, blocks in sections(guide).items() if full.startswith(title)]
    return [line for block in blocks for line in block]
