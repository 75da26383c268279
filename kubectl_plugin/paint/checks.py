"""The lines of `doctor`. On a terminal two short good results share a line where they fit, and everything else is
wrapped; for `grep` each check has one line.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Final

from rich.text import Text

from kubectl_plugin.paint.table import clean
from kubectl_plugin.report.installation.checkup import DoctorCheck, Level

INDENT: Final = 6
"""Columns for the level."""
BETWEEN: Final = 3
"""Fewest columns between two checks on one line."""
STYLES: Final = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "bold red"}


def checks_text(checks: Sequence[DoctorCheck], *, width: int | None, only_ascii: bool) -> Text:
    """All checks in their order. `width`: None for one line each; else no line is wider."""
    lines = [line for check in checks for line in _long_lines(check)] if width is None else _fitted(checks, width)
    return Text("\n").join(clean(line, only_ascii) for line in lines)


def _long_lines(check: DoctorCheck) -> list[Text]:
    return [_level(check).append(check.message, style=""), *(Text(f"{' ' * INDENT}hint: {it}") for it in check.hints)]


def _fitted(checks: Sequence[DoctorCheck], width: int) -> list[Text]:
    rows = _rows(checks, width)
    column = max((len(row[0].message) for row in rows if len(row) == 2), default=0)
    lines: list[Text] = []
    for row in rows:
        if len(row) == 2 and _pair_width(column, row[1]) <= width:
            left = _level(row[0]).append(row[0].message.ljust(column + BETWEEN), style="")
            lines.append(left.append_text(_level(row[1]).append(row[1].message, style="")))
        else:
            for check in row:
                lines += _wrapped(check, width)
    return lines


def _rows(checks: Sequence[DoctorCheck], width: int) -> list[tuple[DoctorCheck, ...]]:
    """Pairs of neighbours that are both fine and fit on one line; the others alone."""
    rows: list[tuple[DoctorCheck, ...]] = []
    for check in checks:
        alone = rows[-1] if rows and len(rows[-1]) == 1 else None
        if alone and _is_fine(alone[0]) and _is_fine(check) and _pair_width(len(alone[0].message), check) <= width:
            rows[-1] = (alone[0], check)
        else:
            rows.append((check,))
    return rows


def _is_fine(check: DoctorCheck) -> bool:
    return check.level is Level.OK and not check.hints


def _pair_width(left: int, right: DoctorCheck) -> int:
    return INDENT + left + BETWEEN + INDENT + len(right.message)


def _level(check: DoctorCheck) -> Text:
    return Text(check.level.ljust(INDENT), style=STYLES[check.level])


def _wrapped(check: DoctorCheck, width: int) -> list[Text]:
    first, *rest = textwrap.wrap(check.message, width - INDENT, break_on_hyphens=False)
    indent = " " * len("hint: ")
    for hint in check.hints:
        rest += textwrap.wrap(f"hint: {hint}", width - INDENT, subsequent_indent=indent, break_on_hyphens=False)
    return [_level(check).append(first, style=""), *(Text(" " * INDENT + line) for line in rest)]
