"""Who manages which field of a DaemonSet (`metadata.managedFields`), where a manifest is applied to it."""

from __future__ import annotations

from typing import Final

import msgspec

from controller.api.objects import JSON, JSONObject, fields_of, items_of, value_at
from kubectl_plugin.report.last_action import LAST_ACTION
from kubectl_plugin.report.snapshot import CHANGE_CAUSE, LAST_APPLIED

NOTES: Final = (LAST_ACTION, CHANGE_CAUSE)
"""Annotations about the last change, which are sent with each manifest but are not its own."""
_ABOUT: Final[JSONObject] = {"f:metadata": {"f:annotations": {f"f:{note}": {} for note in NOTES}}}
_NOTE: Final[JSONObject] = {"f:metadata": {"f:annotations": {f"f:{LAST_APPLIED}": {}}}}
HOLDS: Final = "kubectl-kruise-ds-hold"
"""The manager of a partition that is not the manifest's."""
KEEPS_NOTE: Final = "kubectl-last-applied"
"""kubectl's manager of its copy of the manifest, of objects that were applied on the client's side before."""


def entries(document: JSONObject) -> list[JSONObject]:
    return items_of(value_at(document, "metadata", "managedFields"))


def applied_fields(document: JSONObject, manager: str) -> JSONObject:
    """The fields that `manager` has applied, without the annotations about the last change."""
    mine = (fields_of(one.get("fieldsV1")) for one in entries(document) if _is_applied(one, manager))
    return _without(next(mine, {}), _ABOUT)


def client_side_managers(document: JSONObject) -> frozenset[str]:
    """Those who applied the object without --server-side; empty where nobody did."""
    return frozenset(str(one.get("manager")) for one in entries(document) if _is_client_side(one))


def taken_from_client_side(document: JSONObject, manager: str) -> list[JSON]:
    """The managers once `manager` has all fields that were applied on the client's side, as kubectl changes them
    before the first apply on the server's side: else a field that the manifest has no longer would stay. The copy of
    the manifest gets a manager of its own, and stays.
    """
    kept, tree = list[JSON](), dict[str, JSON]()
    first = next(one for one in entries(document) if _is_client_side(one))
    for one in entries(document):
        if _is_client_side(one) or _is_applied(one, manager):
            tree = _union(tree, fields_of(one.get("fieldsV1")))
        else:
            kept.append(one)
    applied = {**first, "operation": "Apply"}
    mine = {**applied, "manager": manager, "fieldsV1": _without(tree, _NOTE)}
    return [mine, {**applied, "manager": KEEPS_NOTE, "fieldsV1": _NOTE}, *kept]


def without_fields_of_client_side(document: JSONObject, expected: JSONObject) -> JSONObject:
    """`expected` without the fields that were applied to `document` on the client's side only, and now are not."""
    tree = dict[str, JSON]()
    for one in filter(_is_client_side, entries(document)):
        tree = _union(tree, _without(fields_of(one.get("fieldsV1")), _NOTE))
    for one in entries(expected):
        if not _is_client_side(one):
            tree = _without(tree, fields_of(one.get("fieldsV1")))
    return fields_of(_pruned(expected, tree or None))


def _is_applied(entry: JSONObject, manager: str) -> bool:
    return (entry.get("manager"), entry.get("operation"), entry.get("subresource")) == (manager, "Apply", None)


def _is_client_side(entry: JSONObject) -> bool:
    noted = value_at(entry, "fieldsV1", "f:metadata", "f:annotations", f"f:{LAST_APPLIED}")
    return entry.get("operation") == "Update" and noted is not None


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


def _pruned(value: JSON, tree: JSON) -> JSON:
    """`value` without the fields of `tree`, which is None for what stays; None where all of it goes.

    What is empty then goes only if it is one of the fields itself.
    """
    if tree is None:
        return value
    fields = fields_of(tree)
    if isinstance(value, dict) and fields:
        left: JSONObject = {
            key: kept for key, one in value.items() if (kept := _pruned(one, fields.get(f"f:{key}"))) is not None
        }
        return left if left or "." not in fields else None
    if isinstance(value, list) and fields:
        return [kept for one in value if (kept := _pruned(one, _tree_of_item(one, fields))) is not None]
    return None


def _tree_of_item(item: JSON, tree: JSONObject) -> JSON:
    """The fields of one item of a list; empty where it goes as a whole."""
    for key, below in tree.items():
        names = msgspec.json.decode(key[2:]) if key[:2] in ("k:", "v:") else None
        if names == item or (isinstance(names, dict) and names.items() <= fields_of(item).items()):
            return {} if "." in fields_of(below) else below
    return None
