"""Icons and bars: each state can be told without a colour, and a bar never says more than is true."""

from __future__ import annotations

import itertools

import pytest

from controller.api.daemonset import Phase
from controller.planner.explanation import NodeState
from kubectl_plugin.render.tables import PHASES, STATES, bar, phase, stacked, state_icon


def test_every_phase_and_state_has_its_own_icon_in_both_character_sets() -> None:
    assert set(PHASES) == set(Phase)
    assert set(STATES) == set(NodeState)
    for icons in (PHASES.values(), STATES.values()):
        assert len(icons) == len({icon.sign for icon in icons}) == len({icon.plain for icon in icons})
        assert all(len(icon.sign) == len(icon.plain) == 1 and icon.plain.isascii() for icon in icons)


def test_a_phase_is_an_icon_and_a_word() -> None:
    assert phase(Phase.PROGRESSING, only_ascii=False).plain == "▶ Progressing"
    assert phase(Phase.PROGRESSING, only_ascii=True).plain == "> Progressing"
    assert state_icon(NodeState.UPDATED, only_ascii=True).plain == "#"


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


def test_parts_stand_side_by_side() -> None:
    parts = [(NodeState.UPDATED, 4), (NodeState.UPDATING, 1), (NodeState.FAILING, 1), (NodeState.NEXT, 2)]
    assert stacked(parts, 16, only_ascii=False).plain == "████████▓▓✗✗░░░░"
    assert stacked(parts, 16, only_ascii=True).plain == "########~~XX>>>>"


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
