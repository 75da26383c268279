"""The notes of a release: what CHANGES.md says of its version. They are printed, as Markdown.

    python -m tests.tools.release_notes [TAG]

With a tag, it has to be the one of the version in pyproject.toml, such as v0.1.0.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]


class NotForRelease(Exception):
    """There is nothing to publish under this tag or version; the message says why."""


def section(changes: str, version: str) -> str:
    """The text below the heading `## VERSION` or `## VERSION (DATE)`; raises `NotForRelease`."""
    headings = list(re.finditer(r"^## (.+)$", changes, re.MULTILINE))
    for heading, after in zip(headings, [*headings[1:], None], strict=True):
        if re.fullmatch(rf"{re.escape(version)}( \(\d{{4}}-\d\d-\d\d\))?", heading[1].strip()):
            if text := changes[heading.end() : after.start() if after else None].strip():
                return text
            raise NotForRelease(f"CHANGES.md says nothing of {version}")
    there = ", ".join(heading[1] for heading in headings)
    raise NotForRelease(f"CHANGES.md has no section '## {version}' or '## {version} (YYYY-MM-DD)'; it has: {there}")


def held_to(tag: str, version: str) -> None:
    """Raise `NotForRelease` unless the tag is the one of this version, which krew and helm have to take as well."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise NotForRelease(f"the version {version} of pyproject.toml is not of the form 1.2.3")
    if tag != f"v{version}":
        raise NotForRelease(f"the tag {tag} is not that of pyproject.toml, v{version}")


def main(arguments: Sequence[str]) -> int:
    """Return 0, or 1 with the reason on stderr."""
    version = str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])
    try:
        for tag in arguments:
            held_to(tag, version)
        print(section((ROOT / "CHANGES.md").read_text(), version))
    except NotForRelease as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
