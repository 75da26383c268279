"""The lines of `doctor`: short good news two in a line where that fits, everything else wrapped below its level."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Final

from rich.text import Text

from kubectl_plugin.paint.table import clean
from kubectl_plugin.report.checkup import Check, Level

INDENT: Final = 6
"""Columns of the level."""
BETWEEN: Final = 3
"""Columns between two checks of one line, at least."""
STYLES: Final = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "bold red"}


def checks_text(checks: Sequence[Check], *, width: int, only_ascii: bool = False) -> Text:
    """All of them, in their order; no line is wider than `width`."""
    half = width // 2
    lines: list[Text] = []
    waiting: Check | None = None
    for check in (*checks, None):
        small = check is not None and _small(check, half)
        if waiting is not None and check is not None and small:
            lines.append(_pair(waiting, check, half))
            waiting = None
            continue
        if waiting is not None:
            lines += _wrapped(waiting, width)
            waiting = None
        if check is not None and small:
            waiting = check
        elif check is not None:
            lines += _wrapped(check, width)
    return Text("\n").join(clean(line, only_ascii) for line in lines)


def _small(check: Check, half: int) -> bool:
    return check.level is Level.OK and not check.hints and INDENT + len(check.message) + BETWEEN <= half


def _level(check: Check) -> Text:
    return Text(check.level.ljust(INDENT), style=STYLES[check.level])


def _pair(left: Check, right: Check, half: int) -> Text:
    return (
        _level(left)
        .append(left.message.ljust(half - INDENT), style="")
        .append_text(_level(right).append(right.message, style=""))
    )


def _wrapped(check: Check, width: int) -> list[Text]:
    first, *rest = textwrap.wrap(check.message, width - INDENT)
    lines = [_level(check).append(first, style="")]
    lines += [Text(" " * INDENT + line) for line in rest]
    for hint in check.hints:
        head, *tail = textwrap.wrap(f"hint: {hint}", width - INDENT, subsequent_indent=" " * len("hint: "))
        lines += [Text(" " * INDENT + line) for line in (head, *tail)]
    return lines
