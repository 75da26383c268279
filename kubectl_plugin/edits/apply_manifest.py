"""Turns a manifest, and what the server makes of it, into an edit."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from controller.api import patch
from controller.api.formats import IntOrPercent, counted
from controller.api.objects import JSON, JSONObject, Key, as_bytes, fields_of, value_at
from controller.planner.rollout_state import RolloutState
from kubectl_plugin.edits import field_owners
from kubectl_plugin.edits.draft import Draft
from kubectl_plugin.edits.edit import ROLLING, Application, Edit
from kubectl_plugin.edits.effects import cautions, course_words, on_delete_caution, pause_caution, rollout_after
from kubectl_plugin.edits.partition import desired_of, keeps_fewer, partition_of
from kubectl_plugin.report.moves import planned_moves
from kubectl_plugin.report.revisions.change_lines import object_change_lines
from kubectl_plugin.report.snapshot import LAST_APPLIED, Snapshot

_ANNOTATIONS = ("metadata", "annotations")
NOTE = (*_ANNOTATIONS, LAST_APPLIED)
_TEMPLATE = ("spec", "template")
_WRITTEN = (("metadata", "labels"), ("metadata", "annotations"), ("spec",))
_WRITTEN_WHOLE = (("metadata", "finalizers"), ("metadata", "ownerReferences"))


def last_applied(document: JSONObject) -> JSONObject:
    """The manifest in kubectl's annotation; empty if there is none, or none that can be read."""
    text = value_at(document, *NOTE)
    try:
        return msgspec.json.decode(text, type=dict[str, JSON]) if isinstance(text, str) else {}
    except (msgspec.MsgspecError, RecursionError):
        return {}


def note_of(manifest: JSONObject) -> str:
    """kubectl's annotation for `manifest`, byte for byte: kubectl would rewrite any other."""
    return f"{as_bytes(manifest, ordered=True).decode()}\n"


def application_of(manifest: JSONObject, key: Key, live: JSONObject, manager: str) -> Application:
    """`manifest` as it is sent."""
    draft = Draft(manifest)
    draft.set(key.namespace, "metadata", "namespace")
    draft.drop(*NOTE)  # a file that the server has written may contain it
    author = draft.document
    for note in field_owners.NOTES if isinstance(draft.get(*_ANNOTATIONS), dict | None) else ():
        if draft.get(*_ANNOTATIONS, note) is None and (noted := value_at(live, *_ANNOTATIONS, note)) is not None:
            draft.set(noted, *_ANNOTATIONS, note)
    return Application(manager=manager, body=draft.document, manifest=author)


def hold_of(document: JSONObject, partition: IntOrPercent) -> Application:
    """Holds `document` at a partition that is not its manifest's. It has a manager of its own: as a field of the
    manifest's it would go with the next apply of that, and all nodes that it holds back would be updated."""
    return beside(document, field_owners.HOLDS, partition, *ROLLING, "partition")


def beside(document: JSONObject, manager: str, value: JSON, *path: str) -> Application:
    """Sets one field of `document` that is not its manifest's."""
    meta = fields_of(document["metadata"])
    named: JSONObject = {field: meta[field] for field in ("name", "namespace", "uid") if field in meta}
    draft = Draft({"apiVersion": document["apiVersion"], "kind": document["kind"], "metadata": named})
    draft.set(value, *path)
    return Application(manager=manager, body=draft.document, manifest={})


def _in_order(snapshot: Snapshot, application: Application, hold: IntOrPercent | None) -> tuple[Application, ...]:
    """The writes, such that whichever is the last to be done, no node gets what it would not get in the end: before
    the manifest the nodes are held at the present partition or at `hold`, whichever keeps more."""
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
    """What is sent with the annotations of `after` that describe the change. A former one that is gone there is
    emptied: the server would only remove it if it had been applied."""
    draft = Draft(application.body)
    for note in field_owners.NOTES:
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
    """The edit that turns the live document into `expected`, which is what the server makes of `application`.

    `snapshot`: its document has no uid where the object does not exist yet. `taken_over`: fields of other managers.
    """
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
    """The edit where at most the managers of fields change. Without it a field that the manifest has no longer would
    stay the next time."""
    live, manager = snapshot.document, application.manager
    before, after = (field_owners.applied_fields(one, manager) for one in (live, expected))
    held = hold is None or field_owners.applied_fields(live, field_owners.HOLDS)
    if before == after and held and not field_owners.client_side_managers(live):
        return Edit(result="unchanged", operations=())
    managers: list[JSON] = [*field_owners.entries(expected)]
    return Edit(
        result="configured",
        operations=(patch.add(managers, "metadata", "managedFields"),),
        applications=_in_order(snapshot, application, hold),
        details=(f"only the manager of its fields changes: {manager}",),
    )


def _first_pods(rollout: RolloutState) -> str:
    """What a new object starts with. It has no old pods for a partition to keep, though partitionedScaling may keep
    nodes waiting."""
    desired = rollout.budget.desired
    first = len(planned_moves(rollout).starting) if rollout.world.daemonset.partitioned_scaling else desired
    return f"{counted(first, 'node', 'gets', of=desired)} a first pod"


def _operations(live: JSONObject, expected: JSONObject) -> tuple[JSONObject, ...]:
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
    """Change the value at `path` into the wanted one field by field, so that the operations' paths
    name what changes."""
    for key in sorted(live.keys() - wanted.keys()):
        draft.drop(*path, key)
    for key, value in wanted.items():
        there = live.get(key)
        if isinstance(value, dict) and isinstance(there, dict) and (*path, key) != _TEMPLATE:
            _set_by_field(draft, there, value, *path, key)
        else:
            draft.set(value, *path, key)
