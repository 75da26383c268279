"""Who manages which field: `metadata.managedFields` of one side, rewritten for the other.

The creator of an object manages all of its fields. Left so, each server-side apply of the manifest would conflict,
and fields that the manifest no longer has would stay for ever.
"""

from __future__ import annotations

from typing import Final

import msgspec

from controller.api.objects import JSON, JSONObject, fields_of, items_of, value_at

FIELD: Final = ("metadata", "managedFields")
NATIVE_VERSION: Final = "apps/v1"
_ITEMWISE: Final = (
    ("f:spec", "f:template", "f:spec", "f:containers"),
    ("f:spec", "f:template", "f:spec", "f:initContainers"),
)
"""Lists in the spec of ours whose items may have a manager each. The CRD's schema has no keys for other lists, so
each of them has managers as a whole only."""


def managers_of(document: JSONObject) -> tuple[JSONObject, ...]:
    """The field managers of a document, without those of its status."""
    return tuple(one for one in items_of(value_at(document, *FIELD)) if not one.get("subresource"))


def managers_for(managers: tuple[JSONObject, ...], document: JSONObject) -> list[JSON]:
    """`managers` for `document`, which may be of the other kind: without the fields that it does not have."""
    version = str(document["apiVersion"])
    made: list[JSON] = []
    for one in managers:
        if _is_native(one.get("apiVersion")) == _is_native(version):
            made.append(one)
        elif fields := _fields_in(fields_of(one.get("fieldsV1")), document, (), whole_lists=not _is_native(version)):
            made.append({**one, "apiVersion": version, "fieldsV1": fields})
    return made


def _is_native(version: JSON) -> bool:
    return version == NATIVE_VERSION


def _fields_in(fields: JSONObject, value: JSON, path: tuple[str, ...], *, whole_lists: bool) -> JSONObject:
    """The entries of `fields` (fieldsV1) whose field exists in `value`. An empty result: none exists. An empty entry:
    the field as a whole."""
    kept: JSONObject = {}
    for key, below in fields.items():
        part = value if key == "." else _member(value, key)
        if part is None:
            continue
        inner = fields_of(below)
        whole = whole_lists and isinstance(part, list) and path[:1] == ("f:spec",) and (*path, key) not in _ITEMWISE
        if whole or not inner:
            kept[key] = {}
        elif left := _fields_in(inner, part, (*path, key), whole_lists=whole_lists):
            kept[key] = left
    return kept


def _member(value: JSON, key: str) -> JSON:
    """The member of `value` that a key of fieldsV1 names: `f:NAME` of an object, or of a list `k:FIELDS` (the item
    with these fields) and `v:ITEM`. None: there is no such member."""
    how, _, text = key.partition(":")
    if how == "f":
        return fields_of(value).get(text)
    wanted = msgspec.json.decode(text)
    if how == "k":
        return next((one for one in items_of(value) if wanted.items() <= one.items()), None)
    return wanted if isinstance(value, list) and wanted in value else None
