"""JSON Patch on a document in memory: how an edit is built, and what `--dry-run=client` shows of it."""

from __future__ import annotations

import copy
from collections.abc import Iterable

from controller.api import patch
from controller.api.objects import JSON, JSONObject, fields_of, is_same, value_at


class Draft:
    """A copy of a document that is edited, and the operations that make the same edits to the original.

    Missing parents are created, so an edit need not know what the server has filled in. A value that is as wanted
    already adds no operation. The segment of a path that goes into a list is an index, as text.
    """

    def __init__(self, document: JSONObject) -> None:
        self._document = copy.deepcopy(document)
        self._operations: list[JSONObject] = []

    @property
    def document(self) -> JSONObject:
        """The document after the operations."""
        return dict(self._document)

    @property
    def operations(self) -> tuple[JSONObject, ...]:
        return tuple(self._operations)

    def get(self, *path: str) -> JSON:
        """The value at `path`, also None if nothing is there."""
        return value_at(self._document, *path)

    def set(self, value: JSON, *path: str) -> None:
        if is_same(self.get(*path), value):
            return
        while not isinstance(self.get(*path[:-1]), dict | list):
            value, path = {path[-1]: value}, path[:-1]
        operation = patch.add(value, *path)
        if isinstance(self.get(*path[:-1]), list):
            operation["op"] = "replace"  # an `add` would insert it and move the rest of the list
        self._do(operation)

    def drop(self, *path: str) -> None:
        parent = self.get(*path[:-1])
        if isinstance(parent, dict) and path[-1] in parent:
            self._do(patch.remove(*path))

    def _do(self, operation: JSONObject) -> None:
        self._document = with_operations(self._document, (operation,))
        self._operations.append(operation)


def with_operations(document: JSONObject, operations: Iterable[JSONObject]) -> JSONObject:
    """A copy of `document` after `operations`, which may be `add`, `replace` and `remove`.

    Raises LookupError where the server would refuse: for a missing parent, or nothing to replace or remove.
    """
    whole: JSONObject = {"": copy.deepcopy(document)}
    for operation in operations:
        _apply(whole, operation)
    return fields_of(whole[""])


def path_segments(operation: JSONObject) -> tuple[str, ...]:
    """The segments of the operation's path, unescaped."""
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in str(operation["path"]).split("/")[1:])


def _apply(whole: JSONObject, operation: JSONObject) -> None:
    *above, last = "", *path_segments(operation)
    parent: JSON = whole
    for segment in above:
        parent = parent[int(segment)] if isinstance(parent, list) else fields_of(parent)[segment]
    value = copy.deepcopy(operation.get("value"))
    match operation["op"], parent:
        case "add", list():
            parent.insert(len(parent) if last == "-" else int(last), value)
        case "replace", list():
            parent[int(last)] = value
        case "remove", list():
            del parent[int(last)]
        case "add", dict():
            parent[last] = value
        case "replace", dict() if last in parent:
            parent[last] = value
        case "remove", dict():
            del parent[last]
        case "replace", _:
            raise KeyError(last)
        case other, _:
            raise ValueError(f"{other} is not a supported JSON Patch operation")
