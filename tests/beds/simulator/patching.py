"""The three patch dialects: JSON Patch (RFC 6902), merge patch (RFC 7386), the strategic one of built-in kinds."""

from __future__ import annotations

import copy
from typing import Any

from tests.beds.simulator.objects import Object
from tests.beds.simulator.refusal import bad_patch, bad_request

OPERATIONS = frozenset({"add", "remove", "replace", "move", "copy", "test"})


def json_patch(document: Object, operations: Any) -> Object:
    """`document`, changed in place and returned; 400 for what is no patch, 422 for one that does not fit."""
    if not isinstance(operations, list):
        raise bad_request("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    root = {"": document}
    for operation in operations:
        if not isinstance(operation, dict) or operation.get("op") not in OPERATIONS:
            raise bad_patch()
        try:
            _apply(root, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise bad_patch() from error
    changed = root[""]
    if not isinstance(changed, dict):
        raise bad_patch()
    return changed


def _apply(root: dict[str, Any], operation: dict[str, Any]) -> None:
    op, path = operation["op"], _segments(operation["path"])
    if op == "test":
        if _get(root, path) != operation.get("value"):
            raise ValueError("test failed")
    elif op == "remove":
        _remove(root, path)
    elif op == "replace":  # of a missing key in a map that is there: done, as if it were an add
        _set(root, path, operation["value"], insert=False)
    elif op == "add":
        _set(root, path, operation["value"], insert=True)
    else:
        source = _segments(operation["from"])
        value = copy.deepcopy(_get(root, source))
        if op == "move":
            _remove(root, source)
        _set(root, path, value, insert=True)


def _segments(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise ValueError(pointer)
    return [segment.replace("~1", "/").replace("~0", "~") for segment in pointer.split("/")]


def _step(container: Any, segment: str) -> Any:
    if isinstance(container, list):
        return container[_index(segment, len(container) - 1)]
    return container[segment]


def _index(segment: str, highest: int) -> int:
    index = int(segment)
    if not 0 <= index <= highest:
        raise IndexError(segment)
    return index


def _get(root: dict[str, Any], path: list[str]) -> Any:
    value: Any = root
    for segment in path:
        value = _step(value, segment)
    return value


def _set(root: dict[str, Any], path: list[str], value: Any, *, insert: bool) -> None:
    parent = _get(root, path[:-1])
    if isinstance(parent, list):
        if path[-1] == "-":
            parent.append(value)
        elif insert:
            parent.insert(_index(path[-1], len(parent)), value)
        else:
            parent[_index(path[-1], len(parent) - 1)] = value
    elif isinstance(parent, dict):
        parent[path[-1]] = value
    else:
        raise TypeError(path[-1])


def _remove(root: dict[str, Any], path: list[str]) -> None:
    parent = _get(root, path[:-1])
    if isinstance(parent, list):
        del parent[_index(path[-1], len(parent) - 1)]
    else:
        del parent[path[-1]]


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386: null takes a field away, lists are replaced as a whole."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "conditions": "type",
    "addresses": "type",
    "ownerReferences": "uid",
    "podIPs": "ip",
}
"""Lists of pods and nodes whose items have an identity. All other lists are replaced as a whole."""


def strategic_merge_patch(target: Any, patch: Any, field: str = "") -> Any:
    """Like `merge_patch`, but items of the lists in `MERGE_KEYS` are matched by their key; `$patch` is obeyed."""
    if isinstance(patch, dict):
        return _merge_maps(target if isinstance(target, dict) else {}, patch)
    if isinstance(patch, list) and field in MERGE_KEYS:
        return _merge_items(target if isinstance(target, list) else [], patch, MERGE_KEYS[field])
    if isinstance(patch, list) and field == "finalizers":
        return [*(target or []), *(item for item in patch if item not in (target or []))]
    return patch


def _merge_maps(target: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    if patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    merged = dict(target)
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            merged[name] = [item for item in merged.get(name) or [] if item not in value]
        elif key.startswith("$"):
            continue
        elif value is None:
            merged.pop(key, None)
        else:
            merged[key] = strategic_merge_patch(merged.get(key), value, key)
    return merged


def _merge_items(target: list[Any], patch: list[Any], key: str) -> list[Any]:
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if "$patch" not in item]
    merged = list(target)
    for item in patch:
        if not isinstance(item, dict) or key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        found = next((index for index, old in enumerate(merged) if old.get(key) == item[key]), None)
        if item.get("$patch") == "delete":
            if found is not None:
                del merged[found]
        elif found is None:
            merged.append(_merge_maps({}, item))
        else:
            merged[found] = _merge_maps(merged[found], item)
    return merged
