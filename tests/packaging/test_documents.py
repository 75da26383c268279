"""The documents: every link leads somewhere, and every file of the code that they name is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"`((?:[\w.-]+/)+(?:[\w.-]+\.(?:py|yaml|toml|md))?|[\w-]+\.py)`")
SECTION = re.compile(r"(docs/(?:[\w-]+/)*[\w-]+\.md)#([\w-]+)")
DEFINED = re.compile(r"`((?:\w+/)*\w+\.py)` `(?:\w+\.)?(\w+)`")
"""A file, and after it what it is named for: a function, a class, or a method of one."""
BASES = tuple(
    ROOT / one
    for one in ("", "controller", "kubectl_plugin", "controller/planner", "tests/properties", "tests/unit/controller")
)
"""Where a path in a text may begin."""
CODE_PAGES = ["CONTRIBUTING.md", *sorted(f"docs/design/{one.name}" for one in (ROOT / "docs/design").glob("*.md"))]


def anchors(page: Path) -> set[str]:
    """As the web pages of repositories make them: lower case, blanks as hyphens, most signs left out."""
    headings = HEADING.findall(FENCED.sub("", page.read_text()))
    return {re.sub(r"[^\w -]", "", one.lower()).strip().replace(" ", "-") for one in headings}


def dead_links(page: Path) -> Iterator[str]:
    for target in LINK.findall(FENCED.sub("", page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists() or (anchor and anchor not in anchors(there)):
            yield target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    assert list(dead_links(page)) == []


@pytest.mark.parametrize("package", ["controller", "kubectl_plugin"])
def test_every_section_that_the_code_names_is_there(package: str) -> None:
    texts = "".join(one.read_text() for one in sorted((ROOT / package).rglob("*.py")))
    named = sorted(set(SECTION.findall(texts)))
    assert [f"{page}#{section}" for page, section in named if section not in anchors(ROOT / page)] == []


def found(name: str) -> Path | None:
    return next((base / name for base in BASES if (base / name).exists()), None)


@pytest.mark.parametrize("page", CODE_PAGES)
def test_every_file_that_is_named_is_there(page: str) -> None:
    assert [one for one in FILE.findall((ROOT / page).read_text()) if found(one) is None] == []


@pytest.mark.parametrize("page", CODE_PAGES)
def test_every_function_that_is_named_is_in_its_file(page: str) -> None:
    named = DEFINED.findall((ROOT / page).read_text())
    texts = [(file, name, there.read_text()) for file, name in named if (there := found(file)) is not None]
    assert [one[:2] for one in texts if not re.search(rf"\b(?:def|class) {one[1]}\b|^{one[1]}\b", one[2], re.M)] == []


def test_every_page_is_reached_from_the_readme() -> None:
    seen, left = set[Path](), [ROOT / "README.md"]
    while left:
        page = left.pop()
        seen.add(page)
        for target in LINK.findall(page.read_text()):
            there = (page.parent / target.partition("#")[0]).resolve()
            more = sorted(there.glob("*.md")) if there.is_dir() else [there]
            left += [one for one in more if one.suffix == ".md" and one.exists() and one not in seen]
    assert [page.relative_to(ROOT).as_posix() for page in PAGES if page not in seen] == []
