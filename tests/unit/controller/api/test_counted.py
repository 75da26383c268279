"""Numbers and nouns agree in every sentence: one function makes them, and nothing else puts one beside the other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from controller.api.formats import counted

ROOT = Path(__file__).parents[4]
NOUNS = re.compile(
    r"(?: of \d+)? (?!get )(?:\w+ )?(?:nodes|pods|pullers|DaemonSets|revisions|steps|waves|changes|jobs|times)\b"
)


@pytest.mark.parametrize(
    ("count", "whole", "words"),
    [
        (0, None, "0 nodes have"),
        (1, None, "1 node has"),
        (2, None, "2 nodes have"),
        (0, 1, "0 of 1 node have"),
        (1, 1, "1 of 1 node has"),
        (0, 2, "0 of 2 nodes have"),
        (1, 2, "1 of 2 nodes has"),
        (2, 2, "2 of 2 nodes have"),
    ],
)
def test_noun_and_verb_agree(count: int, whole: int | None, words: str) -> None:
    assert counted(count, "node", "has", of=whole) == words


@pytest.mark.parametrize(
    ("one", "many"), [("is", "are"), ("still waits", "still wait"), ("no longer has", "no longer have")]
)
def test_only_the_verb_itself_changes(one: str, many: str) -> None:
    assert [counted(count, "old pod", one) for count in (1, 2)] == [f"1 old pod {one}", f"2 old pods {many}"]


def beside_a_number(source: str) -> Iterator[int]:
    """The lines of texts in which a noun in the plural follows a number that may be 1."""
    for text in ast.walk(ast.parse(source)):
        if isinstance(text, ast.JoinedStr):
            for value, after in pairwise(text.values):
                told = after.value if isinstance(after, ast.Constant) else ""
                if isinstance(value, ast.FormattedValue) and NOUNS.match(str(told)):
                    yield text.lineno


@pytest.mark.parametrize("package", ["controller", "kubectl_plugin"])
def test_no_sentence_says_1_nodes(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    assert [f"{one}:{line}" for one in files for line in beside_a_number(one.read_text())] == []
