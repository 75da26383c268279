"""Quantities, read and written."""

from __future__ import annotations

import pytest

from tests.beds.quantities import canonical, quantity


@pytest.mark.parametrize(
    ("text", "number"),
    [("1", 1), ("100m", 0.1), ("1.5", 1.5), ("64Mi", 64 * 2**20), ("2Gi", 2 * 2**30), ("1k", 1000)],
)
def test_quantities(text: str, number: float) -> None:
    assert float(quantity(text)) == pytest.approx(number)


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("1000m", "1"),
        ("0.5", "500m"),
        (0.16, "160m"),
        ("1.50", "1500m"),
        ("1024Mi", "1Gi"),
        ("1500Mi", "1500Mi"),
        ("2000", "2k"),
        ("0", "0"),
        ("plenty", "plenty"),
        ("9" * 1000, "9" * 1000),
    ],
)
def test_a_quantity_is_stored_in_its_canonical_form(given: str | float, stored: str) -> None:
    assert canonical(given) == stored
