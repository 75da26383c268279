"""Turns a manifest, and the server's dry-run result, into an edit; decides on field ownership (`managedFields`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from controller.api.formats import IntOrPercent, counted
from controller.api.objects import JSON, JSONObject, Key, as_bytes, fields_of, items_of, value_at
from controller.planner.rollout_state import RolloutState
from kubectl_plugin.changes.edit import (
    ROLLING,
    Application,
    Draft,
    Edit,
    Operation,
    cautions,
    course_words,
    on_delete_caution,
    pause_caution,
    rollout_after,
)
from kubectl_plugin.changes.steering import desired_of, keeps_fewer, partition_of
from kubectl_plugin.rollout.diff import object_change_lines
from kubectl_plugin.rollout.in_place import planned_moves
from kubectl_plugin.rollout.last_action import LAST_ACTION
from kubectl_plugin.rollout.snapshot import CHANGE_CAUSE, LAST_APPLIED, Snapshot

NOTES: Final = (LAST_ACTION, CHANGE_CAUSE)
"""Annotations about the last change: sent with each manifest, but not part of it."""
_ABOUT: Final[JSONObject] = {"f:metadata": {"f:annotations": {f"f:{note}": {} for note in NOTES}}}
_NOTE: Final[JSONObject] = {"f:metadata": {"f:annotations": {f"f:{LAST_APPLIED}": {}}}}
HOLDS: Final = "kubectl-kruise-ds-hold"
"""Field manager of a partition that the manifest does not set."""
KEEPS_NOTE: Final = "kubectl-last-applied"
"""kubectl's field manager for its copy of the manifest on objects that were once applied on the client side."""


def entries(document: JSONObject) -> list[JSONObject]:
    return items_of(value_at(document, "metadata", "managedFields"))


def applied_fields(document: JSONObject, manager: str) -> JSONObject:
    mine = (fields_of(entry.get("fieldsV1")) for entry in entries(document) if _is_applied(entry, manager))
    return _without(next(mine, {}), _ABOUT)


def client_side_managers(document: JSONObject) -> frozenset[str]:
    """Managers that have applied the object without --server-side."""
    return frozenset(str(entry.get("manager")) for entry in entries(document) if _is_client_side(entry))


def taken_from_client_side(document: JSONObject, manager: str) -> list[JSON]:
    """The managedFields after `manager` takes over all client-side fields, as kubectl does before the first
    server-side apply: otherwise a field dropped from the manifest would stay. kubectl's copy of the manifest gets its
    own manager."""
    kept, tree = list[JSON](), dict[str, JSON]()
    first = next(entry for entry in entries(document) if _is_client_side(entry))
    for entry in entries(document):
        if _is_client_side(entry) or _is_applied(entry, manager):
            tree = _union(tree, fields_of(entry.get("fieldsV1")))
        else:
            kept.append(entry)
    applied = {**first, "operation": "Apply"}
    mine = {**applied, "manager": manager, "fieldsV1": _without(tree, _NOTE)}
    return [mine, {**applied, "manager": KEEPS_NOTE, "fieldsV1": _NOTE}, *kept]


def without_fields_of_client_side(document: JSONObject, expected: JSONObject) -> JSONObject:
    """`expected` without the fields that only client-side apply set on `document`."""
    tree = dict[str, JSON]()
    for entry in filter(_is_client_side, entries(document)):
        tree = _union(tree, _without(fields_of(entry.get("fieldsV1")), _NOTE))
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
    kept: JSONObject = {}
    for key, below in tree.items():
        if key not in other:
            kept[key] = below
        elif inner := _without(fields_of(below), fields_of(other[key])):
            kept[key] = inner
    return kept


def _pruned(value: JSON, tree: JSON) -> JSON:
    """`value` without the fields in `tree` (None: keep all); None if nothing remains. An object or list that becomes
    empty is removed only if `tree` lists it as a field itself."""
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
    """The part of `tree` (fieldsV1) for one list item; empty if the whole item is removed."""
    for key, below in tree.items():
        names = msgspec.json.decode(key[2:]) if key[:2] in ("k:", "v:") else None
        if names == item or (isinstance(names, dict) and names.items() <= fields_of(item).items()):
            return {} if "." in fields_of(below) else below
    return None


_ANNOTATIONS = ("metadata", "annotations")
NOTE = (*_ANNOTATIONS, LAST_APPLIED)
_TEMPLATE = ("spec", "template")
_WRITTEN = (("metadata", "labels"), ("metadata", "annotations"), ("spec",))
_WRITTEN_WHOLE = (("metadata", "finalizers"), ("metadata", "ownerReferences"))


def last_applied(document: JSONObject) -> JSONObject:
    """The manifest in kubectl's annotation; empty if it is missing or unreadable."""
    text = value_at(document, *NOTE)
    try:
        return msgspec.json.decode(text, type=dict[str, JSON]) if isinstance(text, str) else {}
    except (msgspec.MsgspecError, RecursionError):
        return {}


def note_of(manifest: JSONObject) -> str:
    """kubectl's annotation for `manifest`, byte for byte: kubectl would rewrite any other form."""
    return f"{as_bytes(manifest, ordered=True).decode()}\n"


def application_of(manifest: JSONObject, key: Key, live: JSONObject, manager: str) -> Application:
    """The application that sends `manifest`, with the live values of `NOTES` that it does not set."""
    draft = Draft(manifest)
    draft.set(key.namespace, "metadata", "namespace")
    draft.drop(*NOTE)  # a file that the server has written may contain it
    author = draft.document
    for note in NOTES if isinstance(draft.get(*_ANNOTATIONS), dict | None) else ():
        if draft.get(*_ANNOTATIONS, note) is None and (noted := value_at(live, *_ANNOTATIONS, note)) is not None:
            draft.set(noted, *_ANNOTATIONS, note)
    return Application(manager=manager, body=draft.document, manifest=author)


def hold_of(document: JSONObject, partition: IntOrPercent) -> Application:
    """Holds `document` at a partition under a separate manager: owned by the manifest's manager, the partition would
    be removed by the next apply, and all nodes it holds back would be updated."""
    return beside(document, HOLDS, partition, *ROLLING, "partition")


def beside(document: JSONObject, manager: str, value: JSON, *path: str) -> Application:
    """Sets one field of `document` that its manifest does not set."""
    meta = fields_of(document["metadata"])
    named: JSONObject = {field: meta[field] for field in ("name", "namespace", "uid") if field in meta}
    draft = Draft({"apiVersion": document["apiVersion"], "kind": document["kind"], "metadata": named})
    draft.set(value, *path)
    return Application(manager=manager, body=draft.document, manifest={})


def _in_order(snapshot: Snapshot, application: Application, hold: IntOrPercent | None) -> tuple[Application, ...]:
    """The writes, ordered so that no node is updated too early if a later write fails: nodes are held first, at the
    present partition or at `hold`, whichever keeps more pods."""
    if hold is None:
        return (application,)
    wanted = hold_of(snapshot.document, hold)
    if value_at(snapshot.document, "metadata", "uid") is None:
        return application, wanted  # there is nothing to hold
    present = partition_of(snapshot)
    if keeps_fewer(hold, present, desired_of(snapshot)):
        return hold_of(snapshot.document, present), application, wanted
    return wanted, application


def with_notes(application: Application, after: JSONObject) -> JSONObject:
    """The body to send, with the annotations in `NOTES` from `after`. One that is gone there is emptied, since the
    server removes only fields that were applied."""
    draft = Draft(application.body)
    for note in NOTES:
        noted = value_at(after, *_ANNOTATIONS, note)
        former = value_at(application.manifest, *_ANNOTATIONS, note) is None and draft.get(*_ANNOTATIONS, note)
        if noted is not None or former:
            draft.set(noted or "", *_ANNOTATIONS, note)
    return draft.document


def apply(
    snapshot: Snapshot,
    application: Application,
    expected: JSONObject,
    hold: IntOrPercent | None,
    *,
    taken_over: Sequence[str] = (),
    show_values: bool,
) -> Edit:
    """The edit that turns the live document, which has no uid if it does not exist yet, into `expected`, the server's
    result of `application`. `taken_over` lists fields taken from other managers."""
    live, is_new = snapshot.document, value_at(snapshot.document, "metadata", "uid") is None
    operations = _operations(live, expected)
    if not operations and not is_new:
        return _change_of_managers(snapshot, application, expected, hold)
    lines = object_change_lines({} if is_new else live, expected, show_values=show_values)
    rollout = rollout_after(snapshot, operations)
    then = replace(snapshot, daemonset=rollout.world.daemonset) if rollout else snapshot
    course = () if rollout is None else (_first_pods(rollout),) if is_new else course_words(snapshot, rollout)
    return Edit(
        result="created" if is_new else "configured",
        operations=operations,
        applications=_in_order(snapshot, application, hold),
        details=(*lines, *taken_over, *course),
        warnings=cautions(snapshot, on_delete_caution(then), pause_caution(then)),
    )


def _change_of_managers(
    snapshot: Snapshot, application: Application, expected: JSONObject, hold: IntOrPercent | None
) -> Edit:
    """At most field managers change: without that, the next apply would not remove fields that the manifest drops."""
    live, manager = snapshot.document, application.manager
    before, after = (applied_fields(one, manager) for one in (live, expected))
    held = hold is None or applied_fields(live, HOLDS)
    if before == after and held and not client_side_managers(live):
        return Edit(result="unchanged")
    managers: list[JSON] = [*entries(expected)]
    return Edit(
        result="configured",
        operations=(Operation(op="add", path=("metadata", "managedFields"), value=managers),),
        applications=_in_order(snapshot, application, hold),
        details=(f"only the manager of its fields changes: {manager}",),
    )


def _first_pods(rollout: RolloutState) -> str:
    """For a new object: a partition keeps no old pods there, but partitionedScaling may hold nodes back."""
    desired = rollout.budget.desired
    first = len(planned_moves(rollout).starting) if rollout.world.daemonset.partitioned_scaling else desired
    return f"{counted(first, 'node', 'gets', of=desired)} a first pod"


def _operations(live: JSONObject, expected: JSONObject) -> tuple[Operation, ...]:
    draft = Draft(live)
    for path in _WRITTEN:
        _set_by_field(draft, fields_of(value_at(live, *path)), fields_of(value_at(expected, *path)), *path)
    for path in _WRITTEN_WHOLE:
        if (value := value_at(expected, *path)) is not None:
            draft.set(value, *path)
        else:
            draft.drop(*path)
    return draft.operations


def _set_by_field(draft: Draft, live: JSONObject, wanted: JSONObject, *path: str) -> None:
    """Writes the difference field by field, so that the paths of the operations name what changes."""
    for key in sorted(live.keys() - wanted.keys()):
        draft.drop(*path, key)
    for key, value in wanted.items():
        there = live.get(key)
        if isinstance(value, dict) and isinstance(there, dict) and (*path, key) != _TEMPLATE:
            _set_by_field(draft, there, value, *path, key)
        else:
            draft.set(value, *path, key)
