"""Turns a manifest into an edit, and lists what changes field by field."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from controller.api.base import JSON, JSONObject, as_bytes, fields_of, value_at
from controller.api.number import IntOrPercent
from controller.planner.board import Board
from kubectl_plugin.edits.draft import Draft
from kubectl_plugin.edits.edit import ROLLING, Edit
from kubectl_plugin.edits.effects import board_after, cautions, course_words, pause_caution
from kubectl_plugin.edits.image import unused_hold_caution
from kubectl_plugin.report.moves import planned_moves
from kubectl_plugin.report.revisions.change_lines import object_change_lines
from kubectl_plugin.report.revisions.differences import differences
from kubectl_plugin.report.snapshot import LAST_APPLIED, Snapshot

_NOTE = ("metadata", "annotations", LAST_APPLIED)
_TEMPLATE = ("spec", "template")
_WRITTEN = (("metadata", "labels"), ("metadata", "annotations"), ("spec",))


def last_applied(document: JSONObject) -> JSONObject:
    """The manifest in kubectl's annotation; empty if there is none, or none that can be read."""
    text = value_at(document, *_NOTE)
    try:
        return msgspec.json.decode(text, type=dict[str, JSON]) if isinstance(text, str) else {}
    except (msgspec.MsgspecError, RecursionError):
        return {}


def note_of(manifest: JSONObject) -> str:
    """kubectl's annotation for `manifest`, byte for byte: kubectl would rewrite any other."""
    return f"{as_bytes(manifest, ordered=True).decode()}\n"


def with_hold_at(document: JSONObject, hold_at: IntOrPercent) -> JSONObject:
    """`document` with this partition; for OnDelete, which has no partition, unchanged."""
    on_delete = value_at(document, "spec", "updateStrategy", "type") == "OnDelete"
    return document if on_delete else _with_value(document, hold_at, *ROLLING, "partition")


def apply(
    snapshot: Snapshot,
    wanted: JSONObject,
    expected: JSONObject,
    hold_at: IntOrPercent | None,
    *,
    is_new: bool,
    show_values: bool,
) -> Edit:
    """The edit that turns the live document into `wanted`. Only labels, annotations and spec are written.

    `expected`: what the server makes of `wanted`. It is compared in place of `wanted`, so that defaults do not look
    like changes, nor does a template that means the same.
    """
    live = snapshot.document
    before, after = (fields_of(value_at(one, *_TEMPLATE)) for one in (live, expected))
    told = differences(before, after)
    if before and not told:
        wanted, expected = (_with_value(one, before, *_TEMPLATE) for one in (wanted, expected))
    lines = object_change_lines(live, expected, show_values=show_values)
    if not lines and not is_new:
        return _update_last_applied(live, wanted)
    draft = _written_draft(live, wanted)
    board = board_after(snapshot, draft.operations)
    then = replace(snapshot, daemonset=board.world.daemonset) if board else snapshot
    return Edit(
        result="created" if is_new else "configured",
        operations=draft.operations,
        details=(
            *lines,
            *(() if board is None else (_first_pods(board),) if is_new else course_words(snapshot, board)),
        ),
        warnings=cautions(snapshot, unused_hold_caution(then, hold_at), pause_caution(then)),
    )


def _update_last_applied(live: JSONObject, wanted: JSONObject) -> Edit:
    """The edit where only kubectl's annotation differs. Left as it is, it would list fields that the manifest no
    longer has, and the next apply would take them from whoever has set them since.
    """
    draft = Draft(live)
    if last_applied(live) != last_applied(wanted):
        draft.set(value_at(wanted, *_NOTE), *_NOTE)
    lines = ("only kubectl's copy of the manifest changes",) if draft.operations else ()
    return Edit(result="configured" if lines else "unchanged", operations=draft.operations, details=lines)


def _first_pods(board: Board) -> str:
    """What a new object starts with. It has no old pods for a partition to keep, though partitionedScaling may keep
    nodes waiting."""
    desired = board.budget.desired
    first = len(planned_moves(board).starting) if board.world.daemonset.partitioned_scaling else desired
    return f"{first} of {desired} nodes get their first pod"


def _written_draft(live: JSONObject, wanted: JSONObject) -> Draft:
    draft = Draft(live)
    for path in _WRITTEN:
        _set_by_field(draft, fields_of(value_at(live, *path)), fields_of(value_at(wanted, *path)), *path)
    return draft


def _set_by_field(draft: Draft, live: JSONObject, wanted: JSONObject, *path: str) -> None:
    """Change the value at `path` into the wanted one field by field, so that the operations' paths
    name what changes."""
    for key in sorted(live.keys() - wanted.keys()):
        draft.drop(*path, key)
    for key, value in wanted.items():
        there = live.get(key)
        if isinstance(value, dict) and isinstance(there, dict) and (*path, key) != _TEMPLATE:
            _set_by_field(draft, there, value, *path, key)
        else:
            draft.set(value, *path, key)


def _with_value(document: JSONObject, value: JSON, *path: str) -> JSONObject:
    draft = Draft(document)
    draft.set(value, *path)
    return draft.document
