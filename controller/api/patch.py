"""JSON Patches (RFC 6902), the only kind of patch sent. A guard replaces the version or uid instead of testing it:
the server answers an outdated version with 409, and another uid with a 422 whose cause names `metadata.uid`, but a
failed `test` looks like any malformed patch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from controller.api.objects import JSON, JSONObject, as_bytes

JsonPatch: TypeAlias = tuple[JSONObject, ...]


def add(value: JSON, *path: str) -> JSONObject:
    """Sets a field, whether or not it exists; on a list, `-` appends. The parent must exist."""
    return {"op": "add", "path": pointer(*path), "value": value}


def replace(value: JSON, *path: str) -> JSONObject:
    return {"op": "replace", "path": pointer(*path), "value": value}


def remove(*path: str) -> JSONObject:
    """Removes a field; if it does not exist, the server refuses the whole patch (422)."""
    return {"op": "remove", "path": pointer(*path)}


def pointer(*segments: str) -> str:
    """A JSON Pointer (RFC 6901), with `/` and `~` escaped in each segment."""
    return "".join("/" + segment.replace("~", "~0").replace("/", "~1") for segment in segments)


def merged(field: str, changes: Mapping[str, str | None], have: Mapping[str, str] | None) -> JsonPatch:
    """Operations that change labels or annotations of an object that has `have`; None removes a key."""
    if have is None:
        given: JSONObject = {key: value for key, value in changes.items() if value is not None}
        return (add(given, "metadata", field),) if given else ()
    return tuple(
        remove("metadata", field, key) if value is None else add(value, "metadata", field, key)
        for key, value in changes.items()
        if value is not None or key in have
    )


def guarded_by_version(version: str, *operations: JSONObject) -> JsonPatch:
    """`operations`, refused with 409 unless the object is still at `version`."""
    return (replace(version, "metadata", "resourceVersion"), *operations)


def guarded_by_uid(uid: str, *operations: JSONObject) -> JsonPatch:
    """`operations`, refused if the object of this name has another uid."""
    return (replace(uid, "metadata", "uid"), *operations)


def encode(patch: JsonPatch) -> bytes:
    return as_bytes(patch)
