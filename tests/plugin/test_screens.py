"""What holds for every screen, whatever the terminal. How each looks is in `golden`, once."""

from __future__ import annotations

import re

import pytest

from tests.plugin import scene as scenes
from tests.plugin.scene import NAME, NAMESPACE, Opened
from tests.plugin.verbs.test_status import CODES

HERE = (NAME, "-n", NAMESPACE)
TEXTS: list[tuple[Opened, tuple[str, ...]]] = [
    *((state, ("status", *HERE)) for state in CODES),
    (scenes.canary, ("diff", NAME, "4", "7", "-n", NAMESPACE)),
    (scenes.canary, ("history", *HERE, "--revision", "7")),
]
"""Screens that say the same in a terminal of any width."""
TABLES: list[tuple[Opened, tuple[str, ...]]] = [
    (scenes.canary, ("list", "-A")),
    (scenes.canary, ("history", *HERE)),
    (scenes.canary, ("plan", *HERE)),
    (scenes.held, ("promote", *HERE, "--dry-run")),
    *((state, ("nodes", *HERE)) for state in (scenes.canary, scenes.in_place, scenes.preparing)),
]
"""Screens that have more columns, or name more nodes, where there is more room."""
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def _name(one: object) -> str:
    return one[0] if isinstance(one, tuple) else getattr(one, "__name__", "")


@pytest.mark.parametrize(("opened", "words"), [*TEXTS, *TABLES], ids=_name)
def test_no_line_is_wider_than_the_terminal_and_nothing_is_cut(opened: Opened, words: tuple[str, ...]) -> None:
    with opened() as scene:
        shown = {columns: scene.run(*words, columns=columns).out for columns in (80, 120, 200)}
    for columns, text in shown.items():
        assert [line for line in text.splitlines() if len(line) > columns] == []
    if (opened, words) in TEXTS:
        missing = set(shown[200].split()) - set(shown[80].split())
        assert not missing, f"at 80 columns there is no {missing} in:\n{shown[80]}"


@pytest.mark.parametrize(("opened", "words"), [*TEXTS, *TABLES], ids=_name)
def test_colours_and_ascii_change_the_looks_only(opened: Opened, words: tuple[str, ...]) -> None:
    with opened() as scene:
        plain = scene.run(*words, columns=200).out  # with every column of a table
        coloured = scene.run(*words, columns=200, colour=True).out
        drawn = scene.run(*words, columns=200, only_ascii=True).out
    assert COLOUR.search(plain) is None
    assert COLOUR.sub("", coloured) == plain
    assert drawn.isascii()
    assert "??" not in drawn, f"question marks stand for what has no letter in ASCII:\n{drawn}"
    assert len(drawn.splitlines()) == len(plain.splitlines())
