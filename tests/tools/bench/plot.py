"""Line charts beside each other, as a PNG: a palette of a few colours, and letters of three by five dots."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

WIDTH, HEIGHT, SCALE = 300, 210, 2
LEFT, TOP, RIGHT, BOTTOM = 46, 26, 288, 168
"""Of the lines in a panel."""
WHITE, BLACK, GREY = range(3)
COLOURS = {"native": 3, "OpenKruise": 4, "kruise-ds": 5}
PALETTE = bytes.fromhex("ffffff 333333 d8d8d8 8a8a8a e07b00 1f5fbf")
_ROWS = "25755 65656 34443 65556 74647 74644 34553 55755 72227 11152 55655 44447 57755 65555 25552 65644 25563 65655"
_ROWS += (
    " 34216 72222 55557 55552 55775 55255 55222 71247 75557 26227 71747 71717 55711 74717 74757 71122 75757 75717"
)
_ROWS += " 00000 00002 00024 11244 51245 24442 21112 00700"
LETTERS = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,/%()-", _ROWS.split(), strict=True))
"""Five rows from above, each an octal digit: 4 is the dot on the left."""


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    x: Sequence[float]
    lines: Mapping[str, Sequence[float]]
    """By a name of `COLOURS`: a value for each x."""


@dataclass(frozen=True, slots=True)
class _Canvas:
    width: int
    rows: list[bytearray] = field(default_factory=list)

    def fill(self, left: int, top: int, right: int, bottom: int, colour: int) -> None:
        for row in self.rows[top:bottom]:
            row[left:right] = bytes([colour]) * (right - left)

    def text(self, left: int, top: int, words: str, colour: int = BLACK) -> None:
        for place, letter in enumerate(words.upper()):
            for row, dots in enumerate(LETTERS[letter]):
                for column in range(3):
                    if int(dots, 8) & 4 >> column:
                        x, y = left + (4 * place + column) * SCALE, top + row * SCALE
                        self.fill(x, y, x + SCALE, y + SCALE, colour)

    def line(self, start: tuple[int, int], end: tuple[int, int], colour: int) -> None:
        steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
        for step in range(steps + 1):
            x, y = (round(a + (b - a) * step / steps) for a, b in zip(start, end, strict=True))
            self.fill(x - 1, y - 1, x + 1, y + 1, colour)


def drawn(panels: Sequence[Panel]) -> bytes:
    canvas = _Canvas(WIDTH * len(panels))
    canvas.rows.extend(bytearray(canvas.width) for _ in range(HEIGHT))
    for place, panel in enumerate(panels):
        _draw(canvas, panel, place * WIDTH)
    return _png(canvas)


def ceiling(most: float) -> float:
    """The end of an axis: 1, 2 or 5 times a power of ten."""
    power = 10.0 ** len(str(int(most))) / 10 if most >= 1 else 0.1
    return next(factor * power for factor in (1, 2, 5, 10, 20) if factor * power >= most)


def _draw(canvas: _Canvas, panel: Panel, offset: int) -> None:
    top = ceiling(max((value for values in panel.lines.values() for value in values), default=1.0))
    canvas.text(offset + 8, 6, panel.title)
    for part in (0.0, 0.5, 1.0):
        y = round(BOTTOM - part * (BOTTOM - TOP))
        canvas.fill(offset + LEFT, y, offset + RIGHT, y + 1, GREY)
        words = f"{part * top:g}"
        canvas.text(offset + LEFT - 6 - 8 * len(words), y - 5, words)

    def place(x: float, value: float) -> tuple[int, int]:
        across = x / max(panel.x) * (RIGHT - LEFT - 20)
        return offset + LEFT + round(across), round(BOTTOM - value / top * (BOTTOM - TOP))

    for x in panel.x:
        words = f"{x:,.0f}"
        canvas.text(place(x, 0)[0] - 4 * len(words), BOTTOM + 6, words)
    left = offset + LEFT
    for name, values in panel.lines.items():
        colour = COLOURS[name]
        places = [place(*point) for point in zip(panel.x, values, strict=True)]
        for start, end in pairwise(places):
            canvas.line(start, end, colour)
        for x, y in places:
            canvas.fill(x - 3, y - 3, x + 3, y + 3, colour)
        canvas.text(left, HEIGHT - 18, name, colour)
        left += 8 * (len(name) + 1)


def _png(canvas: _Canvas) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", canvas.width, HEIGHT, 8, 3, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in canvas.rows), 9)
    chunks = ((b"IHDR", head), (b"PLTE", PALETTE), (b"IDAT", data), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*one) for one in chunks)
