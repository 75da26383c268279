"""Histories and comparisons for programs. Keys are only ever added."""

from __future__ import annotations

from collections.abc import Iterable

from controller.api.base import JSON, JSONObject
from controller.api.meta import rfc3339
from controller.planner.in_place.change import InPlaceChange
from kubectl_plugin.report.documents import document
from kubectl_plugin.report.in_place import in_words
from kubectl_plugin.report.revisions.comparison import ComparedSide, Comparison
from kubectl_plugin.report.revisions.differences import image_only
from kubectl_plugin.report.revisions.history import RevisionRow
from kubectl_plugin.report.revisions.masking import masked


def history_document(namespace: str, name: str, rows: Iterable[RevisionRow]) -> JSONObject:
    """What `history -o json` prints."""
    return document("RevisionList", namespace=namespace, name=name, items=[_row(row) for row in rows])


def revision_document(namespace: str, name: str, row: RevisionRow, *, show_values: bool) -> JSONObject:
    """What `history --revision N -o json` prints: the same, and the whole template."""
    template = row.revision.template if show_values else masked(row.revision.template)
    return document("Revision", namespace=namespace, name=name, **_row(row), template=template)


def comparison_document(namespace: str, comparison: Comparison) -> JSONObject:
    """What `diff -o json` prints."""
    return document(
        "RevisionDifference",
        namespace=namespace,
        name=comparison.name,
        old=_side(comparison.old),
        new=_side(comparison.new),
        changes=[one.document for one in comparison.changes],
        imageOnly=image_only(comparison.changes),
        verdict=comparison.verdict,
    )


def _row(row: RevisionRow) -> JSONObject:
    changes: list[JSON] = [one.document for one in row.changes]
    return {
        "revision": row.revision.number,
        "controllerRevision": row.revision.name,
        "hash": row.revision.hash,
        "createdAt": rfc3339(row.created),
        "live": row.live,
        "nodes": row.nodes,
        "images": {**row.images},
        "change": row.change(),
        "changes": changes,
        "inPlace": None if row.way is None else isinstance(row.way, InPlaceChange),
        "way": None if row.way is None else in_words(row.way),
        "oldest": row.oldest,
        "revisionHistoryLimit": row.limit,
        "cause": row.cause or None,
    }


def _side(side: ComparedSide) -> JSONObject:
    detail = side.revision
    return {
        "live": side.live,
        "file": side.file or None,
        "revision": detail.revision.number if detail else None,
        "hash": detail.revision.hash if detail else None,
        "createdAt": rfc3339(detail.created) if detail else None,
        "nodes": side.nodes,
    }
