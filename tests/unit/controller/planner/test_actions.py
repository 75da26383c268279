"""What is said of one kind of action agrees with what is said of the others."""

from __future__ import annotations

import re
from typing import get_args

from controller.observe.daemonset_counters import FAMILIES, OF_OPERATIONS
from controller.planner import rolling_update
from controller.planner.actions import Action, DeleteReason, Harmless, InDoubt

KINDS = get_args(Action)


def test_the_metrics_know_each_operation() -> None:
    (labels,) = ([*always, *seldom] for name, _, _, always, seldom in FAMILIES if name == OF_OPERATIONS)
    assert {kind.operation for kind in KINDS} - {""} == {operation for operation, _ in labels}


def test_what_is_in_doubt_is_not_harmless() -> None:
    assert set(get_args(InDoubt)).isdisjoint(get_args(Harmless))


def test_the_update_opens_with_every_reason_to_delete_a_pod() -> None:
    assert set(re.findall(r"^ {4}([A-Z_]+) ", rolling_update.__doc__ or "", re.M)) == set(DeleteReason.__members__)
