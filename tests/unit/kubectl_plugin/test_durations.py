"""Lengths of time, as they are given and as they are shown."""

from __future__ import annotations

import pytest

from kubectl_plugin.durations import seconds_of, short_duration
from kubectl_plugin.failures import CommandError, ExitCode

M, H, D = 60, 3600, 86400


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "0s"),
        (0.9, "0s"),
        (119, "119s"),
        (120, "2m"),
        (9 * M + 59, "9m59s"),
        (10 * M + 5, "10m"),
        (3 * H - 1, "179m"),
        (3 * H, "3h"),
        (3 * H + 5 * M, "3h5m"),
        (8 * H - 1, "7h59m"),
        (8 * H + 5 * M, "8h"),
        (2 * D - 1, "47h"),
        (2 * D, "2d"),
        (2 * D + H, "2d1h"),
        (8 * D - 1, "7d23h"),
        (8 * D + H, "8d"),
    ],
)
def test_an_age_has_its_second_unit_only_where_the_first_is_small(seconds: float, words: str) -> None:
    assert short_duration(seconds) == words


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("1.5", 1.5), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("500ms", 0.5), ("2d", 2 * D)],
)
def test_what_go_can_read(text: str, seconds: float) -> None:
    assert seconds_of(text, "--timeout") == seconds


@pytest.mark.parametrize("text", ["", "soon", "-5s", "5 s", "5y", "1h30", "s"])
def test_anything_else_is_wrong_usage_that_names_the_flag(text: str) -> None:
    with pytest.raises(CommandError, match="invalid --soak") as failed:
        seconds_of(text, "--soak")
    assert failed.value.exit_code == ExitCode.USAGE
