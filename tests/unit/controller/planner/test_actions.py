"""What is said of one kind of action agrees with what is said of the others."""

from __future__ import annotations

from collections import Counter
from typing import get_args

import pytest

from controller.planner.actions import Action, Harmless, InDoubt
from controller.planner.traits import Effect
from controller.telemetry.daemonset_counters import FAMILIES, OF_OPERATIONS

KINDS = get_args(Action)


@pytest.mark.parametrize("effect", get_args(Effect))
def test_an_effect_is_left_by_one_kind_of_action(effect: str) -> None:
    assert Counter(kind.traits.leaves for kind in KINDS)[effect] == 1


def test_no_kind_of_action_ends_what_it_leaves_itself() -> None:
    assert [
        kind for kind in KINDS if kind.traits.leaves and kind.traits.leaves in (kind.traits.ends, kind.traits.may_end)
    ] == []


def test_the_metrics_know_each_operation() -> None:
    (labels,) = ([*always, *seldom] for name, _, _, always, seldom in FAMILIES if name == OF_OPERATIONS)
    assert {kind.traits.operation for kind in KINDS} - {""} == {operation for operation, _ in labels}


def test_what_is_in_doubt_is_not_harmless() -> None:
    assert set(get_args(InDoubt)).isdisjoint(get_args(Harmless))
