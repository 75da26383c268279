"""A change of one DaemonSet: JSON Patch operations, their result in words, and the annotations that record it."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from controller.api import patch, template_identity
from controller.api.daemonset import DaemonSet, DaemonSetView, RollingUpdate, project
from controller.api.formats import counted
from controller.api.objects import JSON, JSONObject, Value, fields_of, is_same, value_at
from controller.api.patch import JsonPatch
from controller.api.revision import Revision
from controller.planner.blocker_texts import Blocker
from controller.planner.node_fit import Placement
from controller.planner.progress import standing_of
from controller.planner.rollout_state import RolloutState, rollout_state
from controller.planner.validation import problems
from kubectl_plugin.errors import Refused
from kubectl_plugin.rollout.in_place import Moves, planned_moves, unasked_words, ways_of
from kubectl_plugin.rollout.last_action import LAST_ACTION, PAUSE_VERB, LastAction, noted_pause
from kubectl_plugin.rollout.snapshot import CHANGE_CAUSE, Snapshot
from kubectl_plugin.rollout.steps import at_step
from kubectl_plugin.rollout.survey import forecast_world
from kubectl_plugin.wording import between, command


class Operation(Value):
    """An operation of a JSON Patch (RFC 6902)."""

    op: Literal["add", "replace", "remove", "test"]
    path: tuple[str, ...]
    """Names of fields, and in lists the index or `-`."""
    value: JSON = None

    @property
    def pointer(self) -> str:
        return patch.pointer(*self.path)


def patch_of(operations: Iterable[Operation]) -> JsonPatch:
    """The operations as the API takes them."""
    return tuple(
        {
            "op": operation.op,
            "path": operation.pointer,
            **({} if operation.op == "remove" else {"value": operation.value}),
        }
        for operation in operations
    )


class Draft:
    """A copy of a document, and JSON Patch operations that repeat its edits on the original. Missing parents are
    created; unchanged values add no operation. In a path, a list index is a string."""

    def __init__(self, document: JSONObject) -> None:
        self._document = copy.deepcopy(document)
        self._operations: list[Operation] = []

    @property
    def document(self) -> JSONObject:
        return dict(self._document)

    @property
    def operations(self) -> tuple[Operation, ...]:
        return tuple(self._operations)

    def get(self, *path: str) -> JSON:
        return value_at(self._document, *path)

    def set(self, value: JSON, *path: str) -> None:
        if is_same(self.get(*path), value):
            return
        while not isinstance(self.get(*path[:-1]), dict | list):
            value, path = {path[-1]: value}, path[:-1]
        in_list = isinstance(self.get(*path[:-1]), list)  # where `add` would insert it and move the rest of the list
        self._do(Operation(op="replace" if in_list else "add", path=path, value=value))

    def drop(self, *path: str) -> None:
        parent = self.get(*path[:-1])
        if isinstance(parent, dict) and path[-1] in parent:
            self._do(Operation(op="remove", path=path))

    def _do(self, operation: Operation) -> None:
        self._document = with_operations(self._document, (operation,))
        self._operations.append(operation)


def with_operations(document: JSONObject, operations: Iterable[Operation]) -> JSONObject:
    """Applies `add`, `replace` and `remove` to a copy. Raises LookupError where the server would refuse."""
    whole: JSONObject = {"": copy.deepcopy(document)}
    for operation in operations:
        _apply(whole, operation)
    return fields_of(whole[""])


def _apply(whole: JSONObject, operation: Operation) -> None:
    *above, last = "", *operation.path
    parent: JSON = whole
    for segment in above:
        parent = parent[int(segment)] if isinstance(parent, list) else fields_of(parent)[segment]
    value = copy.deepcopy(operation.value)
    match operation.op, parent:
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
        case _:
            raise LookupError(f"{operation.op} {operation.pointer}")


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
    operations: tuple[Operation, ...] = ()
    """Empty if the object is already as wanted; nothing is written then."""
    applications: tuple[Application, ...] = ()
    """Server-side applies, made in this order instead of the operations, which then only describe the change."""
    details: tuple[str, ...] = ()
    warnings: tuple[Caution, ...] = ()


def settings_of(snapshot: Snapshot, doing: str) -> RollingUpdate:
    """Raises Refused for OnDelete; `doing` is the verb in its message."""
    daemonset = snapshot.daemonset
    rolling = daemonset.rolling_update
    if rolling is None:
        raise Refused(
            f"cannot {doing} {daemonset.name}: updateStrategy is OnDelete, pods change only when you delete them",
            command("nodes", daemonset.key, "--only", "old"),
        )
    return rolling


ROLLBACK: Final = "rollback"

_CAUSE: Final = ("metadata", "annotations", CHANGE_CAUSE)
_TEMPLATE: Final = ("spec", "template")


def action_operations(document: JSONObject, change: tuple[Operation, ...], done: LastAction) -> tuple[Operation, ...]:
    """Operations, in addition to `change`, that record `done` as the last action, and its reason as the change cause.
    A rollback also records the template it restores. A pause stays recorded until the DaemonSet is resumed."""
    draft = Draft(with_operations(document, change))
    if done.verb == ROLLBACK:
        done = replace(done, template=_new_template(change))
    if done.verb != PAUSE_VERB and draft.get(*ROLLING, "paused"):
        done = replace(done, pause=noted_pause(document))
    draft.set(msgspec.json.encode(done).decode(), "metadata", "annotations", LAST_ACTION)
    return (*draft.operations, *cause_operations(document, (*change, *draft.operations), done.reason))


def cause_operations(document: JSONObject, change: tuple[Operation, ...], reason: str) -> tuple[Operation, ...]:
    """Operations that set the change cause to `reason` if `change` touches the template. Without a reason the former
    cause is removed, as it describes an earlier revision, unless `change` sets one."""
    draft = Draft(with_operations(document, change))
    if any(one.path[:2] == _TEMPLATE for one in change):
        if reason:
            draft.set(reason, *_CAUSE)
        elif draft.get(*_CAUSE) == value_at(document, *_CAUSE):
            draft.drop(*_CAUSE)
    return draft.operations


def _new_template(change: tuple[Operation, ...]) -> str:
    written = (one.value for one in change if one.path == _TEMPLATE)
    return next((template_identity.identity(one) for one in written if isinstance(one, dict)), "")


def rollout_after(snapshot: Snapshot, operations: tuple[Operation, ...] = ()) -> RolloutState | None:
    """The rollout after `operations`, in its next step if the present one is over. None if pods are unreadable, if
    nodes are unreadable although placement depends on them, or if the planner rejects the spec."""
    if not snapshot.pods_readable:
        return None
    try:
        after = project(msgspec.convert(with_operations(snapshot.document, operations), DaemonSetView))
        if snapshot.nodes is None and _chooses_nodes(after):
            return None
        if problems(after):
            return None
        rollout = rollout_state(forecast_world(snapshot, after))
        progress = standing_of(rollout, observed=True).step_progress
        begins = progress is not None and progress.is_over and not progress.is_complete and not rollout.stopped
        return (
            rollout_state(at_step(rollout.world, progress.step + 1)) if progress is not None and begins else rollout
        )
    except (ValueError, msgspec.MsgspecError):
        return None


def _chooses_nodes(daemonset: DaemonSet) -> bool:
    """Whether node labels or taints decide which nodes get a pod or an update."""
    rolling, spec = daemonset.rolling_update, msgspec.convert(daemonset.spec.template, Placement).spec
    selects = rolling is not None and rolling.selector is not None
    return selects or bool(spec.node_selector) or spec.affinity is not None


def number_of(current: Revision, history: Sequence[Revision]) -> int:
    """The number of the current revision, or the one the controller will give it: always the highest."""
    return max(current.number, history[0].number + 1 if history else 1)


def revision_of(snapshot: Snapshot, rollout: RolloutState) -> str:
    """`revision 7`, or `the newest revision` if revisions are unreadable."""
    if not snapshot.revisions_readable:
        return "the newest revision"
    return f"revision {number_of(rollout.revision, rollout.history)}"


def course_words(snapshot: Snapshot, rollout: RolloutState) -> tuple[str, ...]:
    moves = planned_moves(rollout)
    revision, desired = revision_of(snapshot, rollout), rollout.budget.desired
    moving, waiting = moves.moving, moves.held.get(Blocker.PAUSED, ())
    if moving:
        first = f"{_nodes_get(moving, desired)} {revision}: {', then '.join(_turn_lines(moves))}"
    elif waiting:
        first = f"{_nodes_get(waiting, desired)} {revision} after resume: {between(waiting)}"
    else:
        first = f"no node gets {revision} now; {len(moves.staying)} of {desired} have it"
    ways = (*ways_of(rollout).words(), *unasked_words(snapshot)) if moving else ()
    return (first, *_kept_lines(rollout, moves), *ways)


def _nodes_get(nodes: Sequence[str], desired: int) -> str:
    return counted(len(nodes), "node", "gets", of=desired)


def _turn_lines(moves: Moves) -> Iterator[str]:
    if moves.at_once:
        yield f"{between(moves.at_once)} at once (no available pod)"
    if moves.later and not moves.wave:
        verb = "is" if len(moves.spent_by) == 1 else "are"
        yield f"{between(moves.later)} when {between(moves.spent_by)} {verb} available"
    elif moves.later:
        pace = f", {moves.wave} at a time" if len(moves.later) > moves.wave else ""
        yield f"{between(moves.later)}{pace}"


def _kept_lines(rollout: RolloutState, moves: Moves) -> Iterator[str]:
    """Nodes that keep an old revision, except those in the first line or in a caution."""
    partition = rollout.rolling_update.partition if rollout.rolling_update else None
    for blocker, nodes in moves.held.items():
        if blocker not in (Blocker.PAUSED, Blocker.ON_DELETE):
            yield blocker.text.of_edited.format(
                partition=partition, who=f"{counted(len(nodes), 'node')} ({between(nodes)})"
            )


def edit_of(
    snapshot: Snapshot, draft: Draft, result: str, *warnings: Caution | None, details: Sequence[str] = ()
) -> Edit:
    rollout = rollout_after(snapshot, draft.operations)
    return Edit(
        result=result,
        operations=draft.operations,
        details=(*details, *(course_words(snapshot, rollout) if rollout else ())),
        warnings=cautions(snapshot, *warnings),
    )


def cautions(snapshot: Snapshot, *others: Caution | None) -> tuple[Caution, ...]:
    terminating = Caution(text=f"{snapshot.key.name} is being deleted") if snapshot.daemonset.terminating else None
    return tuple(one for one in (terminating, *others) if one is not None)


def on_delete_caution(snapshot: Snapshot) -> Caution | None:
    daemonset = snapshot.daemonset
    if daemonset.rolling_update is not None:
        return None
    return Caution(
        text=f"updateStrategy of {daemonset.name} is OnDelete: pods change only when you delete them",
        hints=(command("nodes", daemonset.key, "--only", "old"),),
    )


def pause_caution(snapshot: Snapshot) -> Caution | None:
    daemonset = snapshot.daemonset
    if not daemonset.paused:
        return None
    return Caution(
        text=f"{daemonset.name} is paused: nothing moves before it is resumed",
        hints=(command("resume", daemonset.key),),
    )
