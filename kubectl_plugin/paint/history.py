"""Revisions as a table, and one of them whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from controller.api.meta import rfc3339
from controller.planner.in_place.change import InPlaceChange
from kubectl_plugin.durations import short
from kubectl_plugin.paint.table import Cell, Column, clean, table
from kubectl_plugin.paint.yaml_lines import yaml_lines
from kubectl_plugin.report.in_place import IN_PLACE, RECREATE, in_words
from kubectl_plugin.report.revisions.history import RevisionRow
from kubectl_plugin.report.revisions.images import short as short_image
from kubectl_plugin.report.revisions.masking import masked

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"

_COLUMNS: Final = (
    Column("REV", right=True),
    Column("AGE"),
    Column("NODES", right=True),
    Column("IMAGES", least=20),
    Column("CHANGE", least=24),
    Column("CAUSE", least=8),
)


def history_table(
    rows: Sequence[RevisionRow], *, now: float, width: int | None, only_ascii: bool, wide: bool
) -> Text:
    """`wide`: every image with its full name, and the hash; else those that differ, by their short names. Whether
    pods get it in place is told where that is asked for."""
    hash_ = (Column("HASH"),) if wide else ()
    way = (Column("WAY"),) if any(row.way is not None for row in rows) else ()
    columns = (*_COLUMNS[:3], *hash_, *_COLUMNS[3:5], *way, *_COLUMNS[5:])
    cells = [_row(row, now, only_ascii=only_ascii, wide=wide, way=bool(way)) for row in rows]
    return table(columns, cells, width=width, only_ascii=only_ascii)


def revision_text(name: str, row: RevisionRow, *, now: float, only_ascii: bool, show_values: bool) -> Text:
    """Everything about one revision; kubectl's own first line."""
    template = row.revision.template if show_values else masked(row.revision.template)
    facts = {
        "Hash": row.revision.hash,
        "Age": f"{_age(row, now)} ({rfc3339(row.created)})",
        "Nodes": UNKNOWN if row.nodes is None else str(row.nodes),
        "Change": row.change(only_ascii=only_ascii),
        "Cause": row.cause or NONE,
        **({} if row.way is None else {"Way": in_words(row.way)}),
    }
    return Text("\n").join(
        [
            Text(f"daemonset.apps.kruise.io/{name} with revision #{row.revision.number}"),
            *(clean(f"{label + ':':<9}{text}", only_ascii) for label, text in facts.items()),
            Text("Template:"),
            *(Text(f"  {line}") for line in yaml_lines(template, only_ascii=only_ascii)),
        ]
    )


def _row(row: RevisionRow, now: float, *, only_ascii: bool, wide: bool, way: bool) -> list[Cell]:
    names = row.images if wide else row.differing
    images = ",".join(row.images[name] if wide else short_image(row.images[name]) for name in names)
    cells: list[Cell] = [str(row.revision.number), _age(row, now), UNKNOWN if row.nodes is None else str(row.nodes)]
    cells += [row.revision.hash] if wide else []
    cells += [images or NONE, row.change(only_ascii=only_ascii)]
    if way:
        cells.append(NONE if row.way is None else IN_PLACE if isinstance(row.way, InPlaceChange) else RECREATE)
    return [*cells, row.cause or NONE]


def _age(row: RevisionRow, now: float) -> str:
    return short(now - row.created)
