"""Whatever users and servers write, what we repeat of it has a bound."""

from __future__ import annotations

import pytest

from controller.api.text import LONGEST_ITEM, MOST_ITEMS, listed, shortened


def test_what_fits_stays_as_it_is() -> None:
    assert shortened("a" * 10, 10) == "a" * 10


@pytest.mark.parametrize("length", [31, 1_000_000])
def test_what_does_not_fit_is_cut_off_and_its_length_told(length: int) -> None:
    found = shortened("a" * length, 30)
    assert len(found) == 30
    assert found.startswith("aa")
    assert found.endswith(f"… ({length:,} characters)")
    assert len(shortened("a" * length, 3)) <= len(f"… ({length:,} characters)")


def test_of_many_the_first_few_are_listed_and_the_others_counted() -> None:
    assert listed(f"p{number}" for number in range(30_000)) == "p0; p1; p2; p3; p4; and 29,995 more"
    assert listed(["a", "b"], separator=", ") == "a, b"
    assert listed([]) == ""


def test_no_listed_item_is_long() -> None:
    assert len(listed(["x" * 1_000_000] * 10)) <= MOST_ITEMS * (LONGEST_ITEM + 2) + len("and 5 more")
