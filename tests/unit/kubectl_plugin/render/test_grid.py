"""Nodes in groups: icons while they fit, bars when they do not, and never more lines than a screen has."""

from __future__ import annotations

import pytest

from controller.planner.explanation import NodeState
from kubectl_plugin.render.status import MOST_GROUPS, grid
from kubectl_plugin.rollout.nodes import NodeRow


def rows(group: str, *states: NodeState) -> list[NodeRow]:
    return [
        NodeRow(
            node=f"{group}-{number}", group=group, state=state, revision=1, pod=None, how="", why="", failure=None
        )
        for number, state in enumerate(states)
    ]


def drawn(nodes: list[NodeRow], width: int = 80, *, only_ascii: bool = False) -> list[str]:
    return [line.plain for line in grid(nodes, width, only_ascii)]


def test_a_group_is_a_line_of_icons_and_the_last_one_has_the_legend() -> None:
    nodes = rows("a", NodeState.OLD, NodeState.OLD) + rows("b", NodeState.UPDATED, NodeState.FAILING)
    assert drawn(nodes) == [
        "  a   ○○   0 of 2",
        "  b   ●✗   1 of 2     ● updated  ✗ failing  ○ old",
    ]


def test_the_legend_goes_below_where_there_is_no_room_beside() -> None:
    nodes = rows("a", NodeState.UPDATED, NodeState.FAILING)
    assert drawn(nodes, width=42) == ["  a   ●✗   1 of 2     ● updated  ✗ failing"]
    assert drawn(nodes, width=41) == ["  a   ●✗   1 of 2", "  ● updated  ✗ failing"]


def test_what_runs_the_new_revision_without_being_asked_is_done_too() -> None:
    assert "2 of 3" in drawn(rows("a", NodeState.UPDATED, NodeState.UNPLANNED, NodeState.OLD))[0]


def test_nodes_that_should_not_run_the_pod_are_left_out() -> None:
    assert drawn(rows("a", NodeState.EXCLUDED)) == []
    assert drawn(rows("a", NodeState.UPDATED, NodeState.EXCLUDED)) == ["  a   ●   1 of 1     ● updated"]


@pytest.mark.parametrize(("count", "is_bar"), [(60, False), (61, True)])
def test_more_than_sixty_nodes_are_a_bar(count: int, is_bar: bool) -> None:
    line = drawn(rows("a", *[NodeState.UPDATED] * count), width=200)[0]
    assert ("█" in line) == is_bar
    assert f"{count} of {count}" in line


def test_one_failing_node_of_thousands_is_seen() -> None:
    line = drawn(rows("a", *[NodeState.UPDATED] * 4999, NodeState.FAILING), only_ascii=True)[0]
    assert "X" in line
    assert "4999 of 5000" in line


@pytest.mark.parametrize("still", [NodeState.UPDATED, NodeState.UNPLANNED, NodeState.OLD])
def test_of_many_groups_those_are_shown_where_something_happens(still: NodeState) -> None:
    nodes = [row for number in range(40) for row in rows(f"g{number:02}", still)]
    lines = drawn([*nodes, *rows("z", NodeState.FAILING)])
    assert len(lines) <= MOST_GROUPS + 2
    assert any(line.startswith("  z  ") for line in lines)
    assert f"and {41 - MOST_GROUPS} more groups" in lines[-1] + lines[-2]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    nodes = rows("a-zone", *[NodeState.UPDATED, NodeState.NEXT] * 1200)
    assert max(map(len, drawn(nodes, width)[:1])) <= width
