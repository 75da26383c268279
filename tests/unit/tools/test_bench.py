"""A benchmark fails on a ratio above its ceiling, and on nothing else."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import structlog

from tests.tools.bench.__main__ import Part, main
from tests.tools.bench.figures import Comparison, compared
from tests.tools.bench.loop import loop

PLAIN = [10.0, 30.0, 20.0]


@pytest.mark.parametrize(
    ("ours", "missed"), [([10.0], False), ([10.1], True), ([1.0, 10.0, 99.0], False), ([11.0, 11.0, 0.1], True)]
)
def test_the_ratio_of_the_medians_is_judged(ours: list[float], missed: bool) -> None:
    assert Comparison("a wave (ms)", PLAIN, ours, 0.5).missed is missed


def test_milliseconds_are_printed_and_the_ratio_decides() -> None:
    slow = Comparison("on a slow machine (ms)", [8000.0], [4000.0], 0.5)
    dear = Comparison("what became dear (ms)", [0.2], [0.3], 0.5)
    report = compared("decisions", [slow, dear])
    assert report.missed == ("what became dear (ms): 1.50 of plain, not <= 0.5",)
    lines = report.text.splitlines()
    assert [line.split()[-1] for line in lines[-2:]] == ["met", "MISSED"]


def test_a_missed_ratio_ends_with_1_and_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    cheap = compared("here all is well", [Comparison("a pod (bytes)", [10.0], [1.0], 0.5)])
    dear = compared("here not", [Comparison("an event (µs)", [1.0], [2.0], 0.5)])
    parts: Mapping[str, Part] = {"pulls": lambda _: cheap, "decide": lambda _: dear, "loop": lambda _: cheap}
    assert main(["--only", "pulls,decide,loop"], parts) == 1
    told = capsys.readouterr()
    assert "MISSED decide: an event (µs): 2.00 of plain, not <= 0.5" in told.err
    assert told.out.count("here all is well") == 2, "the others are measured all the same"
    assert main(["--only", "pulls,loop"], parts) == 0


def test_the_rollout_of_the_event_loop_ends() -> None:
    try:
        assert "a rollout" in loop(lambda _: None, nodes=20, sets=2).text
    finally:
        structlog.reset_defaults()
