"""Values on the command line."""

from __future__ import annotations

import pytest

from controller.api import formats
from controller.api.formats import IntOrPercent
from kubectl_plugin import flags
from kubectl_plugin.errors import CommandError, ExitCode
from kubectl_plugin.flags import int_or_percent, seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("1.5", 1.5), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("500ms", 0.5), ("2d", 172_800)],
)
def test_what_go_can_read(text: str, seconds: float) -> None:
    assert seconds_of(text, "--timeout") == seconds


@pytest.mark.parametrize("text", ["", "soon", "-5s", "5 s", "5y", "1h30", "s"])
def test_anything_else_is_wrong_usage_that_names_the_flag(text: str) -> None:
    with pytest.raises(CommandError, match="invalid --soak") as failed:
        seconds_of(text, "--soak")
    assert failed.value.exit_code == ExitCode.USAGE


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
    assert formats.is_well_formed(value)


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


def test_states_are_completed_one_by_one_and_all_only_alone() -> None:
    assert flags.states("")[-1] == "all"
    assert "old,next" in (offered := flags.states("old,n"))
    assert "old,old" not in offered
    assert "all" not in offered
