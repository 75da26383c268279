"""The picture as text: golden files, so that a change of its looks is seen before it is made."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from tests.tools.demo.drawing import ICONS, draw
from tests.tools.demo.journal import COMMAND, FACT, NODE, STEP, Line
from tests.tools.demo.picture import Act, Cell, Counts, Picture, State, Zone

GOLDEN = Path(__file__).parent / "golden"

ZONES = (
    Zone(
        name="zone-a",
        cells=(
            Cell(node="a-01", state=State.READY, revision="A", pod="demo-rh4crxtl"),
            Cell(node="a-02", state=State.READY, revision="A", pod="demo-tvhrcj56"),
            Cell(node="a-03", state=State.FAILING, revision="B", pod="demo-f9xzt7w2"),
        ),
    ),
    Zone(
        name="zone-b",
        cells=(
            Cell(node="b-01", state=State.OUT),
            Cell(node="b-02", state=State.MISSING),
            Cell(node="b-03", state=State.LEAVING, revision="A", pod="demo-p7rlrnl2"),
        ),
    ),
    Zone(
        name="zone-c",
        cells=(
            Cell(node="c-01", state=State.STARTING, revision="B", pod="demo-fxkd754l"),
            Cell(node="c-02", state=State.READY, revision="B", pod="demo-d48ml4fp"),
        ),
    ),
)
PICTURE = Picture(
    title="8 nodes in three zones, simulated cluster",
    seconds=12.3,
    act=Act(number=3, of=6, title="Then everywhere, 3 at a time", command="kubectl edit ads demo   # partition 0"),
    zones=ZONES,
    counts=Counts(desired=7, current=6, ready=4, up_to_date=2, available=3),
    images=(("A", "busybox"), ("B", "busybox:1.37")),
    worst=3,
    lines=(
        Line(kind=NODE, at=3.5, text="a-02  A ready"),
        Line(kind=FACT, at=4.0, text="8 nodes have their pod after 2.5 s"),
        Line(kind=STEP, at=5.5, text="3/6 Then everywhere, 3 at a time"),
        Line(kind=COMMAND, at=5.5, text="$ kubectl edit ads demo   # partition 0"),
        Line(kind=NODE, at=12.0, text="c-02  B ready, unavailable for 2.0 s"),
    ),
)
EMPTY = Picture(title="24 nodes", seconds=0, act=Act(number=0, of=6, title="24 nodes, no DaemonSet", command=""))


@pytest.mark.parametrize(
    ("name", "width", "height", "ascii_only"),
    [("80x20", 80, 20, False), ("120x30", 120, 30, False), ("80x16-ascii", 80, 16, True), ("50x14", 50, 14, False)],
)
def test_the_picture_looks_like_its_golden_file(name: str, width: int, height: int, ascii_only: bool) -> None:
    seen = text_of(PICTURE, width, height, ascii_only=ascii_only)
    assert seen == (GOLDEN / f"{name}.txt").read_text()


@pytest.mark.parametrize("width", [40, 62, 80, 140])
@pytest.mark.parametrize("height", [20, 24, 40])
def test_no_line_is_wider_and_no_picture_higher_than_the_terminal(width: int, height: int) -> None:
    lines = text_of(PICTURE, width, height).splitlines()
    assert len(lines) <= height
    assert max(len(line) for line in lines) <= width


def test_there_is_a_picture_before_there_is_anything_to_see() -> None:
    assert "24 nodes, no DaemonSet" in text_of(EMPTY, 80, 24)


def test_every_state_is_reported_without_colour() -> None:
    seen = text_of(PICTURE, 80, 24)
    for cell in (cell for zone in ZONES for cell in zone.cells):
        icon = ICONS[cell.state][0]
        assert f"{cell.node}  {cell.revision or ' '} {icon} {cell.state}" in seen


def text_of(picture: Picture, width: int, height: int, *, ascii_only: bool = False) -> str:
    """As on a terminal without colours; blanks at the ends of lines do not count."""
    file = io.StringIO()
    console = Console(file=file, width=width, height=height, color_system=None, force_terminal=False, highlight=False)
    console.print(draw(picture, width=width, height=height, ascii_only=ascii_only))
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"
