"""The notes of a release are what CHANGES.md says of its version, and of no other one."""

from __future__ import annotations

import pytest

from tests.tools.release_notes import NotForRelease, held_to, section

CHANGES = """\
# Changes

## Unreleased

- Not yet.

## 0.2.0 (2026-12-01)

- New: a verb.
  It has two lines.

### Also

- Old: none.

## 0.1.10

- Ten.

## 0.1.1 (2026-11-01)

## 0.1.0 (some day)

- First.

## 0x0.9

- First.
"""


@pytest.mark.parametrize(
    ("version", "notes"),
    [
        ("0.2.0", "- New: a verb.\n  It has two lines.\n\n### Also\n\n- Old: none."),
        ("0.1.10", "- Ten."),
    ],
)
def test_the_section_of_a_version_ends_where_the_next_begins(version: str, notes: str) -> None:
    assert section(CHANGES, version) == notes


def test_the_last_section_ends_with_the_file() -> None:
    assert section("## 1.0.0\n\n- All.\n", "1.0.0") == "- All."


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("0.3.0", r"no section '## 0\.3\.0' .* it has: Unreleased, 0\.2\.0"),
        ("0.1", "no section"),
        ("0.1.1", r"says nothing of 0\.1\.1"),
        ("0.1.0", "no section"),
        ("0.0.9", "no section"),
    ],
)
def test_a_version_without_a_section_is_refused(version: str, why: str) -> None:
    with pytest.raises(NotForRelease, match=why):
        section(CHANGES, version)


@pytest.mark.parametrize("tag", ["0.1.0", "v0.1", "v0.1.0-rc1", "v0.2.0", ""])
def test_a_tag_of_another_version_is_refused(tag: str) -> None:
    with pytest.raises(NotForRelease, match=r"not that of pyproject\.toml, v0\.1\.0$"):
        held_to(tag, "0.1.0")


@pytest.mark.parametrize("version", ["1.0", "1.0.0rc1", "1.0.0-rc1"])
def test_a_version_that_krew_or_helm_would_not_take_is_refused(version: str) -> None:
    with pytest.raises(NotForRelease, match=r"not of the form 1\.2\.3"):
        held_to(f"v{version}", version)


def test_the_tag_of_the_version_is_taken() -> None:
    held_to("v0.1.0", "0.1.0")
