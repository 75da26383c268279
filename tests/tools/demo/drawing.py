"""A picture as text: zones side by side, a line for each node. Every colour is also a letter or a word."""

from __future__ import annotations

from itertools import zip_longest

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tests.tools.demo.journal import COMMAND, NODE, Line
from tests.tools.demo.picture import Cell, Counts, Picture, State, Zone

ICONS = {
    State.READY: ("●", "#", "green"),
    State.STARTING: ("◐", "~", "yellow"),
    State.LEAVING: ("◌", "<", "yellow"),
    State.MISSING: ("○", "o", "red"),
    State.FAILING: ("✗", "X", "bold red"),
    State.OUT: ("-", "-", "dim"),
    State.IDLE: ("·", ".", "dim"),
}
"""Icon, icon in ASCII, style."""
REVISION_STYLES = ("cyan", "magenta", "blue", "yellow")
WITH_POD_NAMES = 110
"""Columns from which there is room for them."""
LONGEST_BAR = 60
MARGIN, GAP = 1, 2


def draw(picture: Picture, *, width: int, height: int, ascii_only: bool = False) -> RenderableType:
    """At most `height` lines of `width` columns; news of the nodes fill what is left at the bottom."""
    inner = width - 2 * MARGIN
    parts = [
        _header(picture, inner),
        _act(picture, inner),
        Text(""),
        _grid(picture.zones, inner, ascii_only=ascii_only),
        _legend(picture.images, inner),
        Text(""),
        _counts(picture.counts, inner),
        _progress(picture, inner, ascii_only=ascii_only),
        Text(""),
    ]
    rows = max((len(zone.cells) for zone in picture.zones), default=0)
    used = 1 + 2 + 1 + (1 + rows if picture.zones else 0) + 1 + 1 + 2 + 1 + 1
    news = [line for line in picture.lines if line.kind != COMMAND]
    parts += [_line(line, inner) for line in news[-max(0, height - used) :] if height > used]
    return Padding(Group(*parts), (0, MARGIN))


def _header(picture: Picture, width: int) -> RenderableType:
    left = Text.assemble(("kruise-ds", "bold"), f"  {picture.title}")
    return _ends(left, Text(f"{picture.seconds:.0f} s", "dim"), width)


def _act(picture: Picture, width: int) -> RenderableType:
    act = picture.act
    number = f"{act.number}/{act.of}  " if act.number else ""
    title = Text.assemble((number, "dim"), (act.title, "bold"))
    command = Text(f"$ {act.command}" if act.command else "", "dim")
    return Group(_cut(title, width), _cut(command, width))


def _grid(zones: tuple[Zone, ...], width: int, *, ascii_only: bool) -> RenderableType:
    table = Table(box=None, show_header=False, expand=False, padding=(0, GAP, 0, 0), pad_edge=False)
    share = width // max(1, len(zones))
    for _ in zones:
        table.add_column(width=share - GAP, no_wrap=True, overflow="crop")
    table.add_row(*(_zone_header(zone) for zone in zones))
    wide = width >= WITH_POD_NAMES
    for row in zip_longest(*(zone.cells for zone in zones)):
        table.add_row(*(Text("") if cell is None else _cell(cell, wide=wide, ascii_only=ascii_only) for cell in row))
    return table


def _zone_header(zone: Zone) -> Text:
    ready = sum(cell.state is State.READY for cell in zone.cells)
    return Text.assemble((zone.name, "bold"), (f"  {ready}/{len(zone.cells)} ready", "dim"))


def _cell(cell: Cell, *, wide: bool, ascii_only: bool) -> Text:
    icon, plain, style = ICONS[cell.state]
    return Text.assemble(
        f"{cell.node}  ",
        (f"{cell.revision or ' '} ", _revision_style(cell.revision)),
        (f"{plain if ascii_only else icon} {cell.state:<8}", style),
        (f"  {cell.pod}" if wide else "", "dim"),
    )


def _legend(images: tuple[tuple[str, str], ...], width: int) -> RenderableType:
    text = Text()
    for letter, image in images:
        text.append("revision ", "dim").append(letter, _revision_style(letter)).append(f"  {image}    ", "dim")
    return _cut(text, width)


def _counts(counts: Counts, width: int) -> RenderableType:
    columns = {
        "NAME": "demo",
        "DESIRED": counts.desired,
        "CURRENT": counts.current,
        "READY": counts.ready,
        "UP-TO-DATE": counts.up_to_date,
        "AVAILABLE": counts.available,
    }
    head = "   ".join(f"{name:<6}" if name == "NAME" else name for name in columns)
    body = "   ".join(f"{value:<6}" if name == "NAME" else f"{value:<{len(name)}}" for name, value in columns.items())
    return Group(_cut(Text(head, "dim"), width), _cut(Text(body), width))


def _progress(picture: Picture, width: int, *, ascii_only: bool) -> RenderableType:
    """How far the newest revision has come, and the worst moment on the way."""
    newest = picture.images[-1][0] if picture.images else ""
    cells = [cell for zone in picture.zones for cell in zone.cells]
    done = sum(cell.state is State.READY and cell.revision == newest for cell in cells) if newest else 0
    words = f"  {done} of {len(cells)} on {newest or '-'}"
    if newest > "A":
        words += f", at most {picture.worst} unavailable at a time"
    room = min(LONGEST_BAR, width - len(words))
    full = room * done // max(1, len(cells))
    on, off = ("#", "-") if ascii_only else ("━", "─")
    return _cut(Text.assemble((on * full, _revision_style(newest)), (off * (room - full), "dim"), words), width)


def _line(line: Line, width: int) -> RenderableType:
    return _cut(Text(str(line), "dim" if line.kind == NODE else ""), width)


def _revision_style(letter: str) -> str:
    return REVISION_STYLES[(ord(letter) - ord("A")) % len(REVISION_STYLES)] if letter else ""


def _ends(left: Text, right: Text, width: int) -> Text:
    left.truncate(max(0, width - right.cell_len - 1), overflow="crop")
    left.pad_right(max(1, width - left.cell_len - right.cell_len))
    return left.append_text(right)


def _cut(text: Text, width: int) -> Text:
    text.truncate(width, overflow="crop")
    text.no_wrap = True
    return text
