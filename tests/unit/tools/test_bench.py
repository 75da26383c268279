"""A benchmark fails on a ratio above its ceiling, and on nothing else; and what is made of what it has measured."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from pathlib import Path

import pytest
import structlog

from tests.tools.bench import figures, growth
from tests.tools.bench.__main__ import Part, main
from tests.tools.bench.figures import Comparison, Figure, Values, compared
from tests.tools.bench.growth import add, read
from tests.tools.bench.in_pod import longest
from tests.tools.bench.loop import loop
from tests.tools.bench.plot import BOTTOM, LEFT, RIGHT, TOP, Panel, ceiling, drawn
from tests.tools.bench.usage import Usage, connections, metric

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
    parts: Mapping[str, Part] = {"pulls": lambda _: cheap, "decide": lambda _: dear, "progressive": lambda _: cheap}
    assert main(["--only", "pulls,decide,progressive"], parts) == 1
    told = capsys.readouterr()
    assert "MISSED decide: an event (µs): 2.00 of plain, not <= 0.5" in told.err
    assert told.out.count("here all is well") == 2, "the others are measured all the same"
    assert main(["--only", "pulls,progressive"], parts) == 0


@pytest.mark.parametrize(
    ("others", "ours", "verdict"),
    [
        ({"native": [20.0], "openkruise": [10.0, 10.0, 99.0]}, 9.0, "met"),
        ({"native": [20.0], "openkruise": [10.0]}, 9.1, "MISSED"),
        ({"native": [10.0]}, 8.0, "met"),
        ({}, 8.0, ""),
    ],
)
def test_a_relative_target_is_a_part_of_the_best_other(
    others: dict[str, list[float]], ours: float, verdict: str
) -> None:
    figure = Figure("roll (s)", {1000: 0.9, 5000: 2.0}, relative=True)
    assert figure.verdict({**others, "ours": [ours]}, 4999) == verdict
    assert figure.verdict({**others, "ours": [ours]}, 999) == "", "too few nodes to judge"
    assert figure.verdict({"native": [10.0], "ours": [19.0]}, 5000) == "met", "more nodes have a target of their own"


def test_a_slow_decision_is_said_and_ends_nothing() -> None:
    row = Comparison("a decision (ms)", PLAIN, [4.0], 0.5, most=3.0)
    assert (row.missed, row.verdict) == (False, "slow")
    assert Comparison("a decision (ms)", PLAIN, [4.0], 0.5, most=4.0).verdict == "met"


def test_the_bytes_of_a_controller_are_those_of_its_open_connections() -> None:
    def line(port: int, pid: int, acked: int, received: int) -> str:
        ends = f"0 0 127.0.0.1:{port} 127.0.0.1:6443"
        return (
            f'{ends} users:(("python",pid={pid},fd=8)) bytes_sent:9 bytes_acked:{acked} bytes_received:{received} x:1'
        )

    def at(*lines: str) -> Usage:
        return Usage(0.0, 0.0, 0.0, connections(lines, 7))

    before = at(line(1, 7, 10, 100), line(2, 7, 5, 5))
    after = at(line(1, 7, 20, 300), line(3, 7, 1, 2), line(4, 77, 1000, 1000))
    assert after.bytes_since(before) == 320 - 110 + 3


def test_a_metric_is_the_sum_over_its_series() -> None:
    text = 'watched_total{of="pods"} 3\nwatched_total{of="nodes, }"} 4\nwatched_total_created 9\nrewatched_total 9\n'
    assert metric(text, "watched_total") == 7.0
    assert metric("watched_total 1.5e+01\n", "watched_total") == 15.0


def test_the_longest_wait_is_that_of_another_key_in_the_time_that_counts() -> None:
    lines = ['[5.0, "bench/a", 9.0]', '[6.0, "bench/a", 0.2]', '[7.0, "bench/broken", 8.0]', '[8.0, "bench/b", 0.1]']
    assert longest(lines, 6.0, but={"bench/broken"}) == (0.2, 2)


def _values(**found: list[float]) -> Values:
    values = figures.no_values()
    for figure in growth.PLOTTED:
        values[figure].update(found)
    return values


def test_what_is_measured_again_takes_the_place_of_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "cost.json"
    add(path, 5000, _values(native=[4.0], ours=[1.23456]))
    add(path, 1000, _values(ours=[2.0]))
    add(path, 5000, _values(ours=[3.0, 5.0]))
    assert list(read(path)) == [1000, 5000]
    assert read(path)[5000][figures.ROLL.text] == {"ours": [3.0, 5.0]}


def test_the_page_keeps_its_text_and_has_a_column_for_each_fleet(tmp_path: Path) -> None:
    path = tmp_path / "cost.json"
    assert growth.page("# Cost\n", read(path)) == "# Cost\n"
    add(path, 1000, _values(native=[4.0], ours=[1.0, 3.0]))
    add(path, 15_000, _values(native=[8.0]))
    page = growth.page("# Cost\n", read(path))
    assert page.startswith("# Cost\n\n## As")
    assert "\n| native; kruise-ds | 1,000 nodes | 15,000 nodes |\n" in page
    assert f"\n| {figures.ROLL.text} | 4; 2 | 8; - |\n" in page
    assert growth.page(page, read(path)) == page, "it takes the place of the one before"


def test_the_page_and_the_plot_are_those_of_the_results() -> None:
    found = read(growth.RESULTS)
    text = growth.PAGE.read_text(encoding="utf-8")
    assert growth.page(text, found) == text, "python -m tests.tools.bench.growth"
    assert growth.PLOT.exists() is bool(found)


@pytest.mark.parametrize(("most", "end"), [(0.4, 0.5), (1.0, 1), (1.5, 2), (9.9, 10), (10.0, 10), (130.0, 200)])
def test_an_axis_ends_at_a_round_number(most: float, end: float) -> None:
    assert ceiling(most) == end


def test_a_line_goes_through_its_points() -> None:
    png = drawn([Panel("roll (s)", [1000, 2000], {"kruise-ds": [0.0, 100.0]})])
    width, height = struct.unpack(">II", png[16:24])
    data = zlib.decompress(png[png.index(b"IDAT") + 4 : png.index(b"IEND") - 8])
    rows = [data[at + 1 : at + 1 + width] for at in range(0, len(data), width + 1)]
    assert len(rows) == height
    left, right = (LEFT + round(x / 2000 * (RIGHT - LEFT - 20)) for x in (1000, 2000))
    assert (rows[BOTTOM][left], rows[TOP][right], rows[(TOP + BOTTOM) // 2][(left + right) // 2]) == (5, 5, 5)
    assert rows[TOP][left] != 5


def test_the_rollout_of_the_event_loop_ends() -> None:
    values = figures.no_values()
    try:
        loop(20, values, lambda _: None, sets=2)
    finally:
        structlog.reset_defaults()
    assert {figure.text for figure in values} >= {"longest step of the event loop: a rollout (ms)"}
