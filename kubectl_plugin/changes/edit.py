"""A change of one DaemonSet: JSON Patch operations, their result in words, and the annotations that record it."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from controller.api import patch, template_identity
from controller.api.daemonset import RollingUpdate
from controller.api.objects import JSON, JSONObject, Value, fields_of, is_same, value_at
from kubectl_plugin.errors import CommandError, ExitCode
from kubectl_plugin.rollout.gitops import LAST_ACTION, PAUSE, LastAction, last_action, noted_pause
from kubectl_plugin.rollout.snapshot import CHANGE_CAUSE, Snapshot
from kubectl_plugin.wording import command


class Draft:
    """A copy of a document, and JSON Patch operations that repeat its edits on the original. Missing parents are
    created; unchanged values add no operation. In a path, a list index is a string."""

    def __init__(self, document: JSONObject) -> None:
        self._document = copy.deepcopy(document)
        self._operations: list[JSONObject] = []

    @property
    def document(self) -> JSONObject:
        return dict(self._document)

    @property
    def operations(self) -> tuple[JSONObject, ...]:
        return tuple(self._operations)

    def get(self, *path: str) -> JSON:
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
    """Applies `add`, `replace` and `remove` to a copy. Raises LookupError where the server would refuse."""
    whole: JSONObject = {"": copy.deepcopy(document)}
    for operation in operations:
        _apply(whole, operation)
    return fields_of(whole[""])


def path_segments(operation: JSONObject) -> tuple[str, ...]:
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


ROLLING: Final = ("spec", "updateStrategy", "rollingUpdate")


class Caution(Value):
    text: str
    hints: tuple[str, ...] = ()


class Application(Value):
    """Fields for a server-side apply, and their field manager."""

    manager: str
    body: JSONObject
    """The manifest, and annotations that are not part of it."""
    manifest: JSONObject
    """Empty for a field set beside a manifest."""


class Edit(Value):
    """A change of one DaemonSet, written as one JSON Patch that is guarded by the resourceVersion it was made for."""

    result: str
    """The result in kubectl's form: `paused`, `partition 16 -> 8`."""
    operations: tuple[JSONObject, ...]
    """Empty if the object is already as wanted; nothing is written then."""
    applications: tuple[Application, ...] = ()
    """Server-side applies, made in this order instead of the operations, which then only describe the change."""
    details: tuple[str, ...] = ()
    warnings: tuple[Caution, ...] = ()


def settings_of(snapshot: Snapshot, doing: str) -> RollingUpdate:
    """Raises CommandError (exit code 6) for OnDelete; `doing` is the verb in its message."""
    daemonset = snapshot.daemonset
    rolling = daemonset.rolling_update
    if rolling is None:
        raise CommandError(
            f"cannot {doing} {daemonset.name}: updateStrategy is OnDelete, pods change only when you delete them",
            hints=(command("nodes", daemonset.key, "--only", "old"),),
            exit_code=ExitCode.REFUSED,
        )
    return rolling


ROLLBACK: Final = "rollback"

_CAUSE: Final = ("metadata", "annotations", CHANGE_CAUSE)
_TEMPLATE: Final = "/spec/template"


def action_operations(
    document: JSONObject, change: tuple[JSONObject, ...], done: LastAction
) -> tuple[JSONObject, ...]:
    """Operations, in addition to `change`, that record `done` as the last action, and its reason as the change cause.
    A rollback also records the template it restores. A pause stays recorded until the DaemonSet is resumed."""
    draft = Draft(with_operations(document, change))
    if done.verb == ROLLBACK:
        done = replace(done, template=_new_template(change))
    if done.verb != PAUSE and draft.get(*ROLLING, "paused"):
        done = replace(done, pause=noted_pause(document))
    draft.set(msgspec.json.encode(done).decode(), "metadata", "annotations", LAST_ACTION)
    return (*draft.operations, *cause_operations(document, (*change, *draft.operations), done.reason))


def cause_operations(document: JSONObject, change: tuple[JSONObject, ...], reason: str) -> tuple[JSONObject, ...]:
    """Operations that set the change cause to `reason` if `change` touches the template. Without a reason the former
    cause is removed, as it describes an earlier revision, unless `change` sets one."""
    draft = Draft(with_operations(document, change))
    if any(f"{one['path']}/".startswith(f"{_TEMPLATE}/") for one in change):
        if reason:
            draft.set(reason, *_CAUSE)
        elif draft.get(*_CAUSE) == value_at(document, *_CAUSE):
            draft.drop(*_CAUSE)
    return draft.operations


def template_gone_back_to(snapshot: Snapshot) -> str:
    """Identity of the template that the last change by this plugin rolled back to; empty if it was not a rollback."""
    last = last_action(snapshot.daemonset.annotations)
    return last.template if last is not None and last.verb == ROLLBACK else ""


def _new_template(change: tuple[JSONObject, ...]) -> str:
    written = (one.get("value") for one in change if one["path"] == _TEMPLATE)
    return next((template_identity.identity(one) for one in written if isinstance(one, dict)), "")
