"""No command of the documents goes untried: each section that has some is followed by a test, to its last line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.guide import GUIDE, MIGRATION, sections

FOLLOWED = re.compile(r"\.follow\(\"([^\"]+)\"")
GUIDES = pytest.mark.parametrize("guide", [GUIDE, MIGRATION], ids=lambda guide: guide.name)


@GUIDES
def test_each_section_with_commands_is_followed_by_a_test(guide: Path) -> None:
    followed = {
        title for test in Path(__file__).parent.glob("test_*.py") for title in FOLLOWED.findall(test.read_text())
    }
    untried = [full for full, blocks in sections(guide).items() if blocks and not full.startswith(tuple(followed))]
    assert not untried


@GUIDES
def test_every_fenced_line_is_a_command(guide: Path) -> None:
    lines = [line for blocks in sections(guide).values() for block in blocks for line in block]
    assert [line for line in lines if not line.startswith("kubectl ")] == []
    assert guide.read_text().count("```") == 2 * sum(len(blocks) for blocks in sections(guide).values())
