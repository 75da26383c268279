"""Icons, bars, groups of nodes, and tables as kubectl prints them."""

from __future__ import annotations

import itertools
from operator import itemgetter
from typing import TypeAlias

import pytest
from rich.text import Text

from controller.api.daemonset import Phase
from controller.planner.explanation import NodeState
from kubectl_plugin.render.status import MOST_GROUPS, grid
from kubectl_plugin.render.tables import PHASES, STATES, Cell, Column, bar, stacked, table
from kubectl_plugin.rollout.nodes import NodeRow


def test_every_phase_and_state_has_its_own_icon_in_both_character_sets() -> None:
    assert set(PHASES) == set(Phase)
    assert set(STATES) == set(NodeState)
    for icons in (PHASES.values(), STATES.values()):
        assert len(icons) == len({icon.sign for icon in icons}) == len({icon.plain for icon in icons})
        assert all(len(icon.sign) == len(icon.plain) == 1 and icon.plain.isascii() for icon in icons)


@pytest.mark.parametrize(
    ("done", "total", "drawn"),
    [
        (0, 8, "░░░░░░░░░░"),
        (4, 8, "█████░░░░░"),
        (8, 8, "██████████"),
        (1, 5000, "█░░░░░░░░░"),
        (4999, 5000, "█████████░"),
        (0, 0, "░░░░░░░░░░"),
    ],
)
def test_a_bar_is_full_only_at_the_end_and_empty_only_at_the_start(done: int, total: int, drawn: str) -> None:
    assert bar(done, total, 10, only_ascii=False).plain == drawn


@pytest.mark.parametrize("parts", [1, 2, 3, 4])
@pytest.mark.parametrize("width", [1, 3, 4, 5, 79])
def test_a_bar_is_always_as_wide_as_asked_and_hides_nothing(parts: int, width: int) -> None:
    states = [NodeState.UPDATED, NodeState.UPDATING, NodeState.FAILING, NodeState.OLD][:parts]
    for counts in itertools.product([0, 1, 7, 9000], repeat=parts):
        drawn = stacked([*zip(states, counts, strict=True)], width, only_ascii=True).plain
        assert len(drawn) == width
        if width >= parts and any(counts):
            for sign, count in zip("#~X.", counts, strict=False):
                assert (sign in drawn) == (count > 0), f"{sign} stands for {count} of {counts}"


def rows(group: str, *states: NodeState) -> list[NodeRow]:
    return [
        NodeRow(
            node=f"{group}-{number}", group=group, state=state, revision=1, pod=None, how="", why="", failure=None
        )
        for number, state in enumerate(states)
    ]


def grid_lines(nodes: list[NodeRow], width: int = 80, *, only_ascii: bool = False) -> list[str]:
    return [line.plain for line in grid(nodes, width, only_ascii)]


def test_a_group_is_a_line_of_icons_and_the_last_one_has_the_legend() -> None:
    nodes = rows("a", NodeState.OLD, NodeState.OLD) + rows("b", NodeState.UPDATED, NodeState.FAILING)
    assert grid_lines(nodes) == [
        "  a   ○○   0 of 2",
        "  b   ●✗   1 of 2     ● updated  ✗ failing  ○ old",
    ]


def test_the_legend_goes_below_where_there_is_no_room_beside() -> None:
    nodes = rows("a", NodeState.UPDATED, NodeState.FAILING)
    assert grid_lines(nodes, width=42) == ["  a   ●✗   1 of 2     ● updated  ✗ failing"]
    assert grid_lines(nodes, width=41) == ["  a   ●✗   1 of 2", "  ● updated  ✗ failing"]


def test_what_runs_the_new_revision_without_being_asked_is_done_too() -> None:
    assert "2 of 3" in grid_lines(rows("a", NodeState.UPDATED, NodeState.UNPLANNED, NodeState.OLD))[0]


def test_nodes_that_should_not_run_the_pod_are_left_out() -> None:
    assert grid_lines(rows("a", NodeState.EXCLUDED)) == []
    assert grid_lines(rows("a", NodeState.UPDATED, NodeState.EXCLUDED)) == ["  a   ●   1 of 1     ● updated"]


@pytest.mark.parametrize(("count", "is_bar"), [(60, False), (61, True)])
def test_more_than_sixty_nodes_are_a_bar(count: int, is_bar: bool) -> None:
    line = grid_lines(rows("a", *[NodeState.UPDATED] * count), width=200)[0]
    assert ("█" in line) == is_bar
    assert f"{count} of {count}" in line


def test_one_failing_node_of_thousands_is_seen() -> None:
    line = grid_lines(rows("a", *[NodeState.UPDATED] * 4999, NodeState.FAILING), only_ascii=True)[0]
    assert "X" in line
    assert "4999 of 5000" in line


@pytest.mark.parametrize("still", [NodeState.UPDATED, NodeState.UNPLANNED, NodeState.OLD])
def test_of_many_groups_those_are_shown_where_something_happens(still: NodeState) -> None:
    nodes = [row for number in range(40) for row in rows(f"g{number:02}", still)]
    lines = grid_lines([*nodes, *rows("z", NodeState.FAILING)])
    assert len(lines) <= MOST_GROUPS + 2
    assert any(line.startswith("  z  ") for line in lines)
    assert f"and {41 - MOST_GROUPS} more groups" in lines[-1] + lines[-2]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    nodes = rows("a-zone", *[NodeState.UPDATED, NodeState.NEXT] * 1200)
    assert max(map(len, grid_lines(nodes, width)[:1])) <= width


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
