"""The three patch dialects: JSON Patch (RFC 6902), merge patch (RFC 7386), the strategic one of built-in kinds; and
server-side apply of DaemonSets: which manager has which field, as `metadata.managedFields` says.

Fields are followed from the first apply on, of the main resource only; who had them before is not known. Lists whose
items have managers each are those that the CRD declares, finalizers and owners.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any, TypeAlias

from tests.beds.simulator import refusal
from tests.beds.simulator.objects import Kind, Object
from tests.beds.simulator.refusal import Refused, bad_patch, bad_request

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


APPLY_PATCH = "application/apply-patch+yaml"
Path: TypeAlias = tuple[str, ...]
Fields: TypeAlias = dict[tuple[str, str], set[Path]]
"""The fields of each manager and operation."""

_CONTAINERS = ("f:spec", "f:template", "f:spec")
_KEYS = {
    (*_CONTAINERS, "f:containers"): "name",
    (*_CONTAINERS, "f:initContainers"): "name",
    ("f:metadata", "f:ownerReferences"): "uid",
    ("f:metadata", "f:finalizers"): "",
}
_NOT_FOLLOWED = {"name", "namespace", "uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"}


def applied(kind: Kind, version: str, old: Object, body: Object, manager: str, *, force: bool) -> Object:
    """`old`, empty for a new object, after `body` is merged into it. Raises 409 for fields of other managers."""
    known, whole = _fields_of(old), (manager, "Apply")
    body = {key: value for key, value in body.items() if key in ("metadata", "spec")}
    wanted = dict(_leaves(body))
    _refuse_conflicts(kind, version, known, whole, old, wanted, body, force=force)
    others = set().union(*(paths for owner, paths in known.items() if owner != whole))
    new = copy.deepcopy(old)
    for path in sorted(known.get(whole, set()) - wanted.keys() - others, key=len, reverse=True):
        _remove_field(new, path)
    _merge(new, body, ())
    known = {owner: paths - (_changed(old, new) if owner != whole else set()) for owner, paths in known.items()}
    known[whole] = set(wanted)
    return _with_managers(new, known, kind.api_version(version))


def updated(kind: Kind, version: str, old: Object, new: Object, manager: str) -> Object:
    """`new` with its managers after a write that is no apply."""
    entries = old["metadata"].get("managedFields") or []
    if entries != new["metadata"].get("managedFields") or all(one.get("operation") != "Apply" for one in entries):
        return new
    known, changed = _fields_of(new), _changed(old, new)
    known = {owner: paths - changed for owner, paths in known.items()}
    there = dict(_leaves(new)).keys()
    known[manager, "Update"] = known.get((manager, "Update"), set()) | (changed & there)
    return _with_managers(new, known, kind.api_version(version))


def _refuse_conflicts(
    kind: Kind,
    version: str,
    known: Fields,
    whole: tuple[str, str],
    old: Object,
    wanted: Any,
    body: Object,
    *,
    force: bool,
) -> None:
    found = [
        (owner, path)
        for (owner, operation), paths in known.items()
        for path in sorted(paths & wanted.keys())
        if (owner, operation) != whole and path[-1] != "." and dict(_leaves(old)).get(path) != wanted[path]
    ]
    if not found or force:
        return
    words = [f'conflict with "{owner}" using {kind.api_version(version)}' for owner, _ in found]
    causes = [
        {"reason": "FieldManagerConflict", "message": word, "field": _text_of(path)}
        for word, (_, path) in zip(words, found, strict=True)
    ]
    listed = "\n- ".join(f"{one['message']}: {one['field']}" for one in causes)
    message = f"Apply failed with {len(causes)} conflict(s): {listed}"
    name = body["metadata"].get("name", "")
    raise Refused(409, "Conflict", message, {**refusal.details(kind, name), "causes": causes})


def _text_of(path: Path) -> str:
    """Such as `.spec.template.spec.containers[name="agent"].image`."""
    words = ""
    for step in path:
        how, _, rest = step.partition(":")
        if how == "k":
            rest = ",".join(f"{key}={json.dumps(value)}" for key, value in json.loads(rest).items())
        words += f".{rest}" if how == "f" else f"[{rest}]"
    return words


def _leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and (value or not path):
        for key, one in value.items():
            if path == () and key not in ("metadata", "spec"):
                continue
            if path != ("f:metadata",) or key not in _NOT_FOLLOWED:
                yield from _leaves(one, (*path, f"f:{key}"))
    elif isinstance(value, list) and path in _KEYS:
        for item in value:
            step = _field_step(path, item)
            yield (*path, step, "."), None
            if isinstance(item, dict):
                yield from _leaves(item, (*path, step))
    else:
        yield path, value


def _field_step(path: Path, item: Any) -> str:
    key = _KEYS[path]
    return f"k:{json.dumps({key: item.get(key)})}" if key else f"v:{json.dumps(item)}"


def _changed(old: Object, new: Object) -> set[Path]:
    before, after = dict(_leaves(old)), dict(_leaves(new))
    return {
        path for path in {**before, **after} if (path in before) != (path in after) or before[path] != after[path]
    }


def _merge(into: Object, body: Object, path: Path) -> None:
    for key, value in body.items():
        at = (*path, f"f:{key}")
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value, at)
        elif at in _KEYS and isinstance(into.get(key), list):
            for item in value:
                there = next((one for one in into[key] if _field_step(at, one) == _field_step(at, item)), None)
                if isinstance(there, dict):
                    _merge(there, item, (*at, _field_step(at, item)))
                elif there is None:
                    into[key].append(copy.deepcopy(item))
        elif value is not None:
            into[key] = copy.deepcopy(value)


def _remove_field(new: Object, path: Path) -> None:
    holder: Any = new
    for index, step in enumerate(path[:-1]):
        above = path[:index]
        if isinstance(holder, list):
            items = [one for one in holder if _field_step(above, one) == step]
            if path[-1] == "." and index == len(path) - 2:
                holder[:] = [one for one in holder if one not in items]
                return
            holder = items[0] if items else {}
        else:
            holder = holder.get(step[2:], {}) if isinstance(holder, dict) else {}
    if isinstance(holder, dict):
        holder.pop(path[-1][2:], None)


def _fields_of(found: Object) -> Fields:
    entries = found.get("metadata", {}).get("managedFields") or []
    return {(one["manager"], one["operation"]): set(_paths(one["fieldsV1"])) for one in entries}


def _paths(tree: Object, path: Path = ()) -> Iterator[Path]:
    for key, below in tree.items():
        yield from _paths(below, (*path, key)) if below else iter([(*path, key)])


def _with_managers(new: Object, known: Fields, api_version: str) -> Object:
    entries = []
    for (manager, operation), paths in known.items():
        tree: Object = {}
        for path in sorted(paths):
            below = tree
            for step in path:
                below = below.setdefault(step, {})
        if tree:
            entry = {"manager": manager, "operation": operation, "apiVersion": api_version, "fieldsType": "FieldsV1"}
            entries.append({**entry, "fieldsV1": tree})
    new["metadata"]["managedFields"] = entries
    return new
