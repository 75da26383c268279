"""The limits of the spec as numbers of nodes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.api.daemonset import RollingUpdate, UpdateStrategy
from controller.api.formats import IntOrPercent
from controller.planner.limits import budget_of
from tests.beds.worlds import ds


@pytest.mark.parametrize(
    ("desired", "max_unavailable", "max_surge", "expected"),
    [
        (2, 0, 0, (1, 0)),
        (2, None, None, (1, 0)),
        (2, "50%", None, (1, 0)),
        (3, "50%", None, (2, 0)),
        (5, 7, None, (7, 0)),
        (2, 0, "50%", (0, 1)),
        (2, 0, "100%", (0, 2)),
        (3, "0%", "0%", (1, 0)),
        (0, "50%", None, (0, 0)),
        (0, 0, 0, (0, 0)),
        (0, 0, "50%", (0, 1)),
    ],
)
def test_limits(
    desired: int, max_unavailable: IntOrPercent | None, max_surge: IntOrPercent | None, expected: tuple[int, int]
) -> None:
    settings = RollingUpdate(max_unavailable=max_unavailable, max_surge=max_surge)
    plain = ds()
    strategy = UpdateStrategy(type="RollingUpdate", rolling_update=settings)
    budget = budget_of(replace(plain, spec=replace(plain.spec, update_strategy=strategy)), desired)
    assert (budget.max_unavailable, budget.max_surge) == expected


def test_surging_means_a_surge_of_one_and_on_delete_no_surge_at_all() -> None:
    surging = budget_of(ds(rolling_update_type="Surging", max_unavailable=None), 5)
    assert (surging.max_surge, surging.max_unavailable) == (1, 0)
    assert budget_of(ds(rolling_update_type="Surging", max_surge=0), 5).max_surge == 0
    assert budget_of(ds(on_delete=True), 5).max_surge == 0
