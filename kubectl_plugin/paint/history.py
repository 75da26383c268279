"""Revisions as a table, and one revision with all of its details."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from controller.api.objects import rfc3339
from controller.inplace.change import InPlaceChange
from kubectl_plugin.durations import short_duration
from kubectl_plugin.paint.table import Column, clean, table
from kubectl_plugin.report.in_place import IN_PLACE, RECREATE, way_in_words
from kubectl_plugin.report.revisions.change_lines import yaml_lines
from kubectl_plugin.report.revisions.hiding import without_secrets
from kubectl_plugin.report.revisions.history import RevisionRow
from kubectl_plugin.report.revisions.images import short_image

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"


def history_table(
    rows: Sequence[RevisionRow], *, now: float, width: int | None, only_ascii: bool, wide: bool
) -> Text:
    """`wide`: the full name of every image, and the hash; else only images that differ, by their short names. The
    column for updates in place is there only where these are asked for."""

    def images(row: RevisionRow) -> str:
        told = row.images.values() if wide else (short_image(row.images[name]) for name in row.differing)
        return ",".join(told) or NONE

    columns: list[Column[RevisionRow]] = [
        Column("REV", lambda row: str(row.revision.number), right=True),
        Column("AGE", lambda row: short_duration(now - row.created)),
        Column("NODES", _nodes, right=True),
        *([Column("HASH", lambda row: row.revision.hash)] if wide else []),
        Column("IMAGES", images, least=20),
        Column("CHANGE", lambda row: row.change(only_ascii=only_ascii), least=24),
        *([Column("WAY", _way)] if any(row.way is not None for row in rows) else []),
        Column("CAUSE", lambda row: row.cause or NONE, least=8),
    ]
    return table(columns, rows, width=width, only_ascii=only_ascii)


def revision_text(name: str, row: RevisionRow, *, now: float, only_ascii: bool, show_values: bool) -> Text:
    """Everything about one revision; the first line is kubectl's."""
    template = row.revision.template if show_values else without_secrets(row.revision.template)[0]
    facts = {
        "Hash": row.revision.hash,
        "Age": f"{short_duration(now - row.created)} ({rfc3339(row.created)})",
        "Nodes": _nodes(row),
        "Change": row.change(only_ascii=only_ascii),
        "Cause": row.cause or NONE,
        **({} if row.way is None else {"Way": way_in_words(row.way)}),
    }
    return Text("\n").join(
        [
            Text(f"daemonset.apps.kruise.io/{name} with revision #{row.revision.number}"),
            *(clean(f"{label + ':':<9}{text}", only_ascii) for label, text in facts.items()),
            Text("Template:"),
            *(Text(f"  {line}") for line in yaml_lines(template, only_ascii=only_ascii)),
        ]
    )


def _nodes(row: RevisionRow) -> str:
    return UNKNOWN if row.nodes is None else str(row.nodes)


def _way(row: RevisionRow) -> str:
    return NONE if row.way is None else IN_PLACE if isinstance(row.way, InPlaceChange) else RECREATE
