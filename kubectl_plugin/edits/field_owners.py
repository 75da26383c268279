"""Who manages which field of a DaemonSet (`metadata.managedFields`), where a manifest is applied to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from controller.api.objects import JSON, JSONObject, fields_of, items_of, value_at
from kubectl_plugin.edits.edit import ROLLING
from kubectl_plugin.report.last_action import LAST_ACTION
from kubectl_plugin.report.snapshot import CHANGE_CAUSE, LAST_APPLIED

NOTES: Final = (LAST_ACTION, CHANGE_CAUSE)
"""Annotations about the last change, which are sent with each manifest but are not its own."""
_ANNOTATIONS: Final = ("metadata", "annotations")
_PARTITION: Final = (*ROLLING, "partition")
_COPY: Final = ("f:metadata", "f:annotations", f"f:{LAST_APPLIED}")
KEEPS_NOTE: Final = "kubectl-last-applied"
"""kubectl's manager of its copy of the manifest, of objects that were applied on the client's side before."""


def entries(document: JSONObject) -> list[JSONObject]:
    return items_of(value_at(document, "metadata", "managedFields"))


def applied_fields(document: JSONObject, manager: str, manifest: JSONObject) -> JSON:
    """The fields of `manifest` that `manager` has applied."""
    mine = (one for one in items_of([*let_go(document, manager, manifest)]) if _is_applied(one, manager))
    return next((one.get("fieldsV1") for one in mine), None)


def client_side_managers(document: JSONObject) -> frozenset[str]:
    """Those who applied the object without --server-side; empty where nobody did."""
    return frozenset(str(one.get("manager")) for one in entries(document) if _is_client_side(one))


def taken_from_client_side(document: JSONObject, manager: str) -> list[JSON]:
    """The managers once `manager` has all fields that were applied on the client's side, as kubectl changes them
    before the first apply on the server's side: else a field that the manifest has no longer would stay. The copy of
    the manifest gets a manager of its own, and stays.
    """
    note, kept = _tree(_COPY), list[JSON]()
    tree: JSONObject = {}
    first = next(one for one in entries(document) if _is_client_side(one))
    for one in entries(document):
        if _is_client_side(one) or _is_applied(one, manager):
            tree = _union(tree, fields_of(one.get("fieldsV1")))
        else:
            kept.append(one)
    applied = {**first, "operation": "Apply"}
    mine = {**applied, "manager": manager, "fieldsV1": _without(tree, note)}
    return [mine, {**applied, "manager": KEEPS_NOTE, "fieldsV1": note}, *kept]


def without_fields_of_client_side(document: JSONObject, expected: JSONObject) -> JSONObject:
    """`expected` without the fields that were applied to `document` on the client's side only, and now are not."""
    note, tree = _tree(_COPY), dict[str, JSON]()
    for one in filter(_is_client_side, entries(document)):
        tree = _union(tree, _without(fields_of(one.get("fieldsV1")), note))
    for one in entries(expected):
        if not _is_client_side(one):
            tree = _without(tree, fields_of(one.get("fieldsV1")))
    return fields_of(_pruned(expected, tree))


def let_go(document: JSONObject, manager: str, manifest: JSONObject) -> list[JSON]:
    """The managers where `manager` has not applied what this plugin sets beside `manifest`. Else the next apply of it
    would remove that, and all nodes that a partition holds back would be updated."""
    beside: JSONObject = {}
    for path in (_PARTITION, *((*_ANNOTATIONS, note) for note in NOTES)):
        if value_at(manifest, *path) is None:
            beside = _union(beside, _tree(f"f:{field}" for field in path))
    return [
        {**one, "fieldsV1": _without(fields_of(one.get("fieldsV1")), beside)} if _is_applied(one, manager) else one
        for one in entries(document)
    ]


def _is_applied(entry: JSONObject, manager: str) -> bool:
    return (entry.get("manager"), entry.get("operation"), entry.get("subresource")) == (manager, "Apply", None)


def _is_client_side(entry: JSONObject) -> bool:
    noted = value_at(entry, "fieldsV1", *_COPY)
    return entry.get("operation") == "Update" and noted is not None


def _tree(path: Iterable[str]) -> JSONObject:
    tree: JSONObject = {}
    for segment in reversed([*path]):
        tree = {segment: tree}
    return tree


def _union(one: JSONObject, other: JSONObject) -> JSONObject:
    return {key: _union(fields_of(one.get(key)), fields_of(other.get(key))) for key in {**one, **other}}


def _without(tree: JSONObject, other: JSONObject) -> JSONObject:
    """The leaves of `tree` that `other` does not have."""
    kept: JSONObject = {}
    for key, below in tree.items():
        if key not in other:
            kept[key] = below
        elif inner := _without(fields_of(below), fields_of(other[key])):
            kept[key] = inner
    return kept


def _pruned(value: JSON, tree: JSONObject) -> JSON:
    """`value` without the fields of `tree`; an object that is empty then goes only if it is one of them itself."""
    if isinstance(value, list):
        named = {key: msgspec.json.decode(key[2:]) for key in tree if key[:2] in ("k:", "v:")}
        return [kept for one in value if (kept := _pruned_item(one, tree, named)) is not None]
    if not isinstance(value, dict):
        return value
    made: JSONObject = {}
    for field, one in value.items():
        below = tree.get(f"f:{field}")
        if below is None:
            made[field] = one
        elif inner := fields_of(below):
            left = _pruned(one, inner)
            if left or "." not in inner:
                made[field] = left
    return made


def _pruned_item(item: JSON, tree: JSONObject, named: dict[str, JSON]) -> JSON:
    """None where the item goes."""
    for key, names in named.items():
        if names == item:
            return None
        if isinstance(names, dict) and isinstance(item, dict) and names.items() <= item.items():
            below = fields_of(tree[key])
            return None if "." in below else _pruned(item, below)
    return item
