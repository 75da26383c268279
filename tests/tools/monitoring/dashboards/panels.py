"""Grafana's panels, rows and variables as values. Only what every Grafana has since version 9: no plugin."""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

Document = dict[str, Any]

DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
WIDTH: Final = 24
"""Columns of Grafana's grid."""


@dataclass(frozen=True, slots=True)
class Query:
    """One expression; `legend` may name labels, as in `{{reason}}`."""

    expression: str
    legend: str = ""
    table: bool = False
    instant: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture. `height` and `width` in cells of the grid."""

    kind: str
    title: str
    queries: tuple[Query, ...]
    meaning: str = ""
    unit: str = "short"
    width: int = 6
    height: int = 7
    defaults: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    transformations: Sequence[Mapping[str, Any]] = ()
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Field, such as a table's column, to what is otherwise with it."""


def stat(
    title: str, expression: str, *, warn_at: float | None = None, unit: str = "short", meaning: str = ""
) -> Panel:
    """One number; from `warn_at` on it is orange."""
    steps: list[Document] = [{"color": "text", "value": None}]
    if warn_at is not None:
        steps.append({"color": "orange", "value": warn_at})
    return Panel(
        "stat",
        title,
        (Query(expression, instant=True),),
        meaning,
        unit,
        width=4,
        height=4,
        defaults={"color": {"mode": "thresholds"}, "thresholds": {"mode": "absolute", "steps": steps}},
        options={"colorMode": "value", "graphMode": "none", "reduceOptions": {"calcs": ["lastNotNull"]}},
    )


def graph(
    title: str, *queries: Query, unit: str = "short", width: int = 8, stacked: bool = False, meaning: str = ""
) -> Panel:
    """Lines over time; `stacked`: areas one upon the other."""
    custom: Document = {"fillOpacity": 60 if stacked else 5, "lineWidth": 1, "showPoints": "never"}
    if stacked:
        custom["stacking"] = {"mode": "normal", "group": "A"}
    return Panel(
        "timeseries",
        title,
        queries,
        meaning,
        unit,
        width,
        defaults={"custom": custom, "min": 0},
        options={"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
    )


def mappings(names: Iterable[tuple[str, str]]) -> list[Document]:
    """Value mappings: 1, 2, 3 … to (name, colour)."""
    options = {
        str(number): {"text": name, "color": color, "index": number}
        for number, (name, color) in enumerate(names, start=1)
    }
    return [{"type": "value", "options": options}]


def label_variable(name: str, metric: str, label: str) -> Document:
    """A choice among the values of a label; All matches targets without that label too."""
    query = f"label_values({metric}, {label})"
    return {
        "name": name,
        "label": name,
        "type": "query",
        "datasource": DATASOURCE,
        "definition": query,
        "query": {"query": query, "refId": f"variable-{name}"},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def dashboard(
    uid: str,
    title: str,
    rows: Mapping[str, Sequence[Panel]],
    variables: Sequence[Document],
    annotations: Sequence[Document] = (),
) -> Document:
    """The whole document; `rows` from top to bottom, each filled from left to right."""
    source = {"name": "datasource", "label": "data source", "type": "datasource", "query": "prometheus"}
    return {
        "uid": uid,
        "title": title,
        "tags": ["kruise-ds"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [source, *variables]},
        "annotations": {"list": list(annotations)},
        "links": [
            {"title": "kruise-ds", "type": "dashboards", "tags": ["kruise-ds"], "asDropdown": False, "keepTime": True}
        ],
        "panels": list(_laid_out(rows)),
    }


def _laid_out(rows: Mapping[str, Sequence[Panel]]) -> Iterable[Document]:
    number, top = 1, 0
    for title, panels in rows.items():
        yield {
            "id": number,
            "type": "row",
            "title": title,
            "collapsed": False,
            "gridPos": {"x": 0, "y": top, "w": WIDTH, "h": 1},
            "panels": [],
        }
        number, top, left, height = number + 1, top + 1, 0, 0
        for panel in panels:
            if left + panel.width > WIDTH:
                top, left, height = top + height, 0, 0
            place = {"x": left, "y": top, "w": panel.width, "h": panel.height}
            yield _document(panel, number, place)
            number, left, height = number + 1, left + panel.width, max(height, panel.height)
        top += height


def _document(panel: Panel, number: int, place: Mapping[str, int]) -> Document:
    found: Document = {"id": number, "type": panel.kind, "title": panel.title}
    if panel.meaning:
        found["description"] = panel.meaning
    found |= {
        "gridPos": dict(place),
        "datasource": DATASOURCE,
        "targets": [_target(name, query) for name, query in zip(string.ascii_uppercase, panel.queries, strict=False)],
        "fieldConfig": {"defaults": {"unit": panel.unit, **panel.defaults}, "overrides": _overrides(panel)},
        "options": dict(panel.options),
    }
    if panel.transformations:
        found["transformations"] = [dict(one) for one in panel.transformations]
    return found


def _overrides(panel: Panel) -> list[Document]:
    return [
        {
            "matcher": {"id": "byName", "options": name},
            "properties": [{"id": what, "value": value} for what, value in properties.items()],
        }
        for name, properties in panel.overrides.items()
    ]


def _target(name: str, query: Query) -> Document:
    now = query.table or query.instant
    return {
        "refId": name,
        "datasource": DATASOURCE,
        "expr": query.expression,
        "legendFormat": query.legend or "__auto",
        "format": "table" if query.table else "time_series",
        "instant": now,
        "range": not now,
    }
