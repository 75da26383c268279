"""The commands of docs/upgrade.md, by section: what people are told to type is what the tests run."""

from __future__ import annotations

import re

from tests.beds.manifests import MANIFESTS

GUIDE = MANIFESTS.parent / "docs" / "upgrade.md"
SECTION = re.compile(r"^## (.*)$", re.MULTILINE)
BLOCK = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def sections() -> dict[str, list[list[str]]]:
    """Title to the section's blocks, each as its lines."""
    _, *parts = SECTION.split(GUIDE.read_text())
    texts = zip(parts[::2], parts[1::2], strict=True)
    return {title: [block.splitlines() for block in BLOCK.findall(text)] for title, text in texts}


def commands(title: str) -> list[str]:
    """The commands of the one section whose title begins so."""
    (blocks,) = [blocks for full, blocks in sections().items() if full.startswith(title)]
    return [line for block in blocks for line in block]
