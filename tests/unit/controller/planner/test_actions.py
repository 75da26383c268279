"""What is said of one kind of action agrees with what is said of the others."""

from __future__ import annotations

from typing import get_args

from controller.observe.daemonset_counters import FAMILIES, OF_OPERATIONS
from controller.planner.actions import Action, Harmless, InDoubt

KINDS = get_args(Action)


def test_the_metrics_know_each_operation() -> None:
    (labels,) = ([*always, *seldom] for name, _, _, always, seldom in FAMILIES if name == OF_OPERATIONS)
    assert {kind.operation for kind in KINDS} - {""} == {operation for operation, _ in labels}


def test_what_is_in_doubt_is_not_harmless() -> None:
    assert set(get_args(InDoubt)).isdisjoint(get_args(Harmless))
