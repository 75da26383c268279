"""Tables as kubectl prints them."""

from __future__ import annotations

import io
from operator import itemgetter
from typing import TypeAlias

import pytest
from rich.text import Text

from kubectl_plugin.flags import GlobalFlags
from kubectl_plugin.host import Host
from kubectl_plugin.render.tables import Cell, Column, table
from kubectl_plugin.terminal import Terminal

Row: TypeAlias = tuple[Cell, ...]

COLUMNS: tuple[Column[Row], ...] = (
    Column("NAME", itemgetter(0), least=6),
    Column("NODES", itemgetter(1), right=True),
    Column("WHY", itemgetter(2), least=5),
)
ROWS: tuple[Row, ...] = (("agent", "24", ""), ("log-shipper", "3", "waits for the budget"))


def lines(rows: tuple[Row, ...] = ROWS, *, width: int | None = None, only_ascii: bool = False) -> list[str]:
    return table(COLUMNS, rows, width=width, only_ascii=only_ascii).plain.split("\n")


def test_columns_stand_two_spaces_apart_and_numbers_to_the_right() -> None:
    assert lines() == [
        "NAME         NODES  WHY",
        "agent           24",
        "log-shipper      3  waits for the budget",
    ]


@pytest.mark.parametrize(
    ("width", "last"),
    [
        (40, "log-shipper      3  waits for the budget"),
        (39, "log-shipper      3  waits for the budg…"),
        (25, "log-shipper      3  wait…"),
        (24, "log-shipp…      3  wait…"),
        (20, "log-s…      3  wait…"),
        (10, "log-s…      3  wait…"),
    ],
)
def test_the_last_column_is_cut_first_and_none_below_its_least(width: int, last: str) -> None:
    assert lines(width=width)[-1] == last


def test_no_column_becomes_narrower_than_its_header() -> None:
    columns: tuple[Column[Row], ...] = (Column("A", itemgetter(0), least=1), Column("NOTICE", itemgetter(1), least=1))
    assert table(columns, [("x", "0123456789")], width=3).plain.split("\n") == ["A  NOTICE", "x  01234…"]


def test_a_cut_in_ascii() -> None:
    assert lines(width=25, only_ascii=True)[-1] == "log-shipper      3  wa..."


def test_in_ascii_everything_else_is_a_question_mark() -> None:
    assert lines((("grün → rot", "1", ""),), only_ascii=True)[-1] == "gr?n ? rot      1"


def test_wide_characters_take_two_columns() -> None:
    assert lines((("日本", "1", "x"), ("abcd", "1", "x")))[1:] == ["日本      1  x", "abcd      1  x"]


def test_a_cell_stays_on_its_line_and_commands_nothing() -> None:
    assert lines((("a\nb\x1b[31m\tc", "1", ""),))[-1] == "a b [31m c      1"


def test_colours_of_a_cell_survive_the_cut() -> None:
    shown = table(COLUMNS, [("x", "1", Text("0123456789", style="red"))], width=18)
    assert [(shown.plain[one.start : one.end], str(one.style)) for one in shown.spans if one.style == "red"] == [
        ("0123…", "red")
    ]


def test_a_terminal_without_colours_gets_none() -> None:
    out = io.StringIO()
    terminal = Terminal(GlobalFlags(), Host(out=out, environ={"COLUMNS": "80"}))
    terminal.show(table(COLUMNS, ROWS, width=terminal.width))
    assert out.getvalue().split("\n") == [*lines(), ""]
