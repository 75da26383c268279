"""Int-or-percent and quantities."""

from __future__ import annotations

import pytest

from controller.api.number import IntOrPercent, canonical_quantity, is_well_formed, scaled


@pytest.mark.parametrize(
    ("value", "total", "up", "down"),
    [
        (None, 10, 0, 0),
        (3, 10, 3, 3),
        (30, 10, 30, 30),
        ("0%", 10, 0, 0),
        ("1%", 10, 1, 0),
        ("35%", 10, 4, 3),
        ("50%", 3, 2, 1),
        ("50%", 2, 1, 1),
        ("100%", 7, 7, 7),
        ("150%", 2, 3, 3),
        ("99%", 0, 0, 0),
        ("33%", 100, 33, 33),
    ],
)
def test_scaling(value: IntOrPercent | None, total: int, up: int, down: int) -> None:
    assert scaled(value, total, round_up=True) == up
    assert scaled(value, total, round_up=False) == down


@pytest.mark.parametrize("value", ["", "3", "3 %", "%", "-3%", "3.5%", "three", "3%%", "٣%", "9999999999%"])
def test_any_other_string_is_malformed_and_refused_when_scaled(value: str) -> None:
    assert not is_well_formed(value)
    with pytest.raises(ValueError, match="neither a whole number nor a percentage"):
        scaled(value, 10, round_up=True)


def test_what_is_well_formed() -> None:
    assert [is_well_formed(value) for value in (0, 5, "0%", "100%", "150%")] == [True] * 5
    assert not is_well_formed(-1)


@pytest.mark.parametrize(
    ("spellings", "canonical"),
    [
        (("1", "1.0", "1000m", "1e0", "1000000u", "+1", 1, 1.0), "1"),
        (("0.1", ".1", "100m"), "0.1"),
        (("0", "0m", "0Gi", 0), "0"),
        (("128Mi", "134217728", "131072Ki"), "134217728"),
        (("1k", "1e3", "1E3", "1000"), "1000"),
        (("1Gi", "1024Mi"), "1073741824"),
        (("1E",), "1000000000000000000"),
        (("1Ei",), "1152921504606846976"),
        (("5n",), "0.000000005"),
        (("-2", "-2000m"), "-2"),
    ],
)
def test_one_spelling_per_amount(spellings: tuple[str | float, ...], canonical: str) -> None:
    assert {canonical_quantity(one) for one in spellings} == {canonical}


def test_giga_and_gibi_are_not_the_same() -> None:
    assert canonical_quantity("1G") != canonical_quantity("1Gi")


@pytest.mark.parametrize("text", ["", "one", "1 Gi", "1gi", "m", "1e", "1e999999999", "0x10"])
def test_what_is_no_quantity_comes_back_as_it_was(text: str) -> None:
    assert canonical_quantity(text) == text


@pytest.mark.parametrize("text", ["1" * 1_000_000, "1" * 1_000_000 + "x", "0." + "0" * 1_000_000 + "1Gi"])
def test_what_is_too_long_for_a_quantity_comes_back_as_it_was(text: str) -> None:
    """Arithmetic on it overflows, and a pattern that tries every way to split its digits does not end."""
    assert canonical_quantity(text) == text


def test_amounts_that_differ_in_their_last_digit_are_not_the_same() -> None:
    assert canonical_quantity("1" * 40 + "1Ki") != canonical_quantity("1" * 40 + "2Ki")
