"""Counts and shares as people type them."""

from __future__ import annotations

import pytest

from controller.api import number
from controller.api.number import IntOrPercent
from kubectl_plugin.failures import CommandError
from kubectl_plugin.int_or_percent import int_or_percent


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("16", 16),
        (" 8 ", 8),
        ("2147483647", 2**31 - 1),
        ("0%", "0%"),
        ("30%", "30%"),
        ("100%", "100%"),
        ("030%", "30%"),
    ],
)
def test_numbers_and_shares_become_what_the_field_holds(text: str, value: IntOrPercent) -> None:
    assert int_or_percent(text, "partition") == value
    assert number.is_well_formed(value)


@pytest.mark.parametrize(
    "text",
    ["half", "", "-1", "+1", "1.5", "50 %", "101%", "-5%", "%", "1e2", "0x10", "2147483648", "٣", "٣%", "10%%"],
)
def test_anything_else_is_refused_with_the_field_and_what_would_be_right(text: str) -> None:
    with pytest.raises(CommandError) as refused:
        int_or_percent(text, "partition")
    assert refused.value.message == (
        f'invalid partition "{text}": use a number (0 or more) or a percentage from 0% to 100%'
    )
    assert refused.value.exit_code == 2


def test_the_field_is_called_as_the_caller_says() -> None:
    with pytest.raises(CommandError, match=r'^invalid maxUnavailable "half"'):
        int_or_percent("half", "maxUnavailable")
