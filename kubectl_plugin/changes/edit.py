"""JSON Patch on a document in memory: how an edit is built, and what `--dry-run=client` shows of it.

A change of one DaemonSet as a value: the operations on the live object, and what they mean in words.

The annotations that record a change on the object: who made it, when and why.
"""

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


ROLLING: Final = ("spec", "updateStrategy", "rollingUpdate")


class Caution(Value):
    """Something a person should know about a change, which is made all the same."""

    text: str
    hints: tuple[str, ...] = ()


class Application(Value):
    """Fields that the server merges into the object, under the name of their manager."""

    manager: str
    body: JSONObject
    """What is sent: the manifest, and the annotations that are not its own."""
    manifest: JSONObject
    """Empty for what is set beside one."""


class Edit(Value):
    """A change of one DaemonSet. It is written as one JSON Patch, guarded by the resourceVersion that it was made
    for."""

    result: str
    """The result as kubectl would print it: `paused`, `partition 16 -> 8`."""
    operations: tuple[JSONObject, ...]
    """Empty if the object is so already: then nothing is written, and that is no failure."""
    applications: tuple[Application, ...] = ()
    """What is written in place of the operations, which then only describe it, one after the other."""
    details: tuple[str, ...] = ()
    """Lines under the result."""
    warnings: tuple[Caution, ...] = ()


def settings_of(snapshot: Snapshot, doing: str) -> RollingUpdate:
    """The live rolling update settings. Raises CommandError with exit code 6 for OnDelete. `doing`: the verb for its
    message, such as `pause`."""
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
"""Value of `LastAction.verb` for a rollback."""

_CAUSE: Final = ("metadata", "annotations", CHANGE_CAUSE)
_TEMPLATE: Final = "/spec/template"


def action_operations(
    document: JSONObject, change: tuple[JSONObject, ...], done: LastAction
) -> tuple[JSONObject, ...]:
    """Operations that record `done` as the last action on `document`, and its reason as `cause_operations` does. They
    go beside the operations of `change`.

    A rollback also records the template that it went back to. Who paused the DaemonSet, and why, stays recorded until
    it is resumed.
    """
    draft = Draft(with_operations(document, change))
    if done.verb == ROLLBACK:
        done = replace(done, template=_new_template(change))
    if done.verb != PAUSE and draft.get(*ROLLING, "paused"):
        done = replace(done, pause=noted_pause(document))
    draft.set(msgspec.json.encode(done).decode(), "metadata", "annotations", LAST_ACTION)
    return (*draft.operations, *cause_operations(document, (*change, *draft.operations), done.reason))


def cause_operations(document: JSONObject, change: tuple[JSONObject, ...], reason: str) -> tuple[JSONObject, ...]:
    """Operations that set the change cause, without any other annotation.

    Only where `change` touches the template: the cause is then `reason`. Without a reason a former cause is removed,
    since it was about an earlier revision, unless `change` sets one itself.
    """
    draft = Draft(with_operations(document, change))
    if any(f"{one['path']}/".startswith(f"{_TEMPLATE}/") for one in change):
        if reason:
            draft.set(reason, *_CAUSE)
        elif draft.get(*_CAUSE) == value_at(document, *_CAUSE):
            draft.drop(*_CAUSE)
    return draft.operations


def template_gone_back_to(snapshot: Snapshot) -> str:
    """The identity of the template that the last change by this plugin rolled back to; empty if that change was no
    rollback."""
    last = last_action(snapshot.daemonset.annotations)
    return last.template if last is not None and last.verb == ROLLBACK else ""


def _new_template(change: tuple[JSONObject, ...]) -> str:
    """The identity of the template in `change`; empty if `change` does not replace the template as a whole."""
    written = (one.get("value") for one in change if one["path"] == _TEMPLATE)
    return next((template_identity.identity(one) for one in written if isinstance(one, dict)), "")
