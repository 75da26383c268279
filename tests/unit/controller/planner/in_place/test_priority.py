"""Launch priorities: which containers get their new image first."""

from __future__ import annotations

from typing import Any

import pytest

from controller.planner.in_place.priority import batches_of
from tests.beds.changing_pod import Json, container


def with_priority(name: str, key: Any) -> Json:
    variable = {"name": "KRUISE_CONTAINER_BARRIER", "valueFrom": {"configMapKeyRef": {"name": "x", "key": key}}}
    return container(name=name, env=[{"name": "OTHER", "value": "p_99"}, variable])


FOUR = [*(with_priority(*one) for one in (("c1", "p_20"), ("c2", "p_10"), ("c3", "p_0"))), with_priority("c4", "p_0")]


@pytest.mark.parametrize(
    ("changed", "batches"),
    [
        (("c1", "c2"), (("c1",), ("c2",))),
        (("c1", "c2", "c4"), (("c1",), ("c2",), ("c4",))),
        (("c4", "c3", "c1"), (("c1",), ("c3", "c4"))),
        (("c4",), (("c4",),)),
        ((), ()),
    ],
)
def test_the_highest_first_and_equals_together(
    changed: tuple[str, ...], batches: tuple[tuple[str, ...], ...]
) -> None:
    assert batches_of(FOUR, changed) == batches


def test_without_priorities_there_is_one_batch() -> None:
    assert batches_of([container(name="a"), container(name="b")], ("b", "a")) == (("a", "b"),)


def test_one_without_a_priority_is_in_the_first() -> None:
    assert batches_of([*FOUR, container(name="free")], ("c2", "c3", "free")) == (("c2", "free"), ("c3",))


@pytest.mark.parametrize("key", ["p_", "p_x", "20", "p_--5", "p_1.5", "p_" + "9" * 40, "", None, ["p_1"]])
def test_what_is_no_priority_is_none(key: Any) -> None:
    assert batches_of([FOUR[0], with_priority("odd", key)], ("c1", "odd"))[0] in (("c1", "odd"), ("odd",))


def test_a_negative_one_comes_last() -> None:
    assert batches_of([with_priority("late", "p_-5"), FOUR[2]], ("late", "c3")) == (("c3",), ("late",))


def test_a_name_of_no_container_is_in_the_first_and_harms_nobody() -> None:
    assert batches_of(FOUR, ("ghost", "c1", "c2")) == (("c1", "ghost"), ("c2",))
