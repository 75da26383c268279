"""Turns a manifest, and what the server makes of it, into an edit."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from controller.api import patch
from controller.api.formats import IntOrPercent
from controller.api.objects import JSON, JSONObject, Key, as_bytes, fields_of, value_at
from controller.planner.rollout_state import RolloutState
from kubectl_plugin.edits import field_owners
from kubectl_plugin.edits.draft import Draft
from kubectl_plugin.edits.edit import ROLLING, Application, Edit
from kubectl_plugin.edits.effects import cautions, course_words, pause_caution, rollout_after
from kubectl_plugin.edits.image import unused_hold_caution
from kubectl_plugin.report.moves import planned_moves
from kubectl_plugin.report.revisions.change_lines import object_change_lines
from kubectl_plugin.report.snapshot import LAST_APPLIED, Snapshot

_ANNOTATIONS = ("metadata", "annotations")
_TEMPLATE = ("spec", "template")
_WRITTEN = (("metadata", "labels"), ("metadata", "annotations"), ("spec",))
_WRITTEN_WHOLE = (("metadata", "finalizers"), ("metadata", "ownerReferences"))


def last_applied(document: JSONObject) -> JSONObject:
    """The manifest in kubectl's annotation; empty if there is none, or none that can be read."""
    text = value_at(document, "metadata", "annotations", LAST_APPLIED)
    try:
        return msgspec.json.decode(text, type=dict[str, JSON]) if isinstance(text, str) else {}
    except (msgspec.MsgspecError, RecursionError):
        return {}


def note_of(manifest: JSONObject) -> str:
    """kubectl's annotation for `manifest`, byte for byte: kubectl would rewrite any other."""
    return f"{as_bytes(manifest, ordered=True).decode()}\n"


def application_of(
    manifest: JSONObject, key: Key, live: JSONObject, hold_at: IntOrPercent | None = None
) -> Application:
    """`manifest` as it is sent, with `hold_at` as its partition; OnDelete has none."""
    draft = Draft(manifest)
    draft.set(key.namespace, "metadata", "namespace")
    draft.drop(*_ANNOTATIONS, LAST_APPLIED)  # a file that the server has written may contain it
    author = draft.document
    for note in field_owners.NOTES:
        if draft.get(*_ANNOTATIONS, note) is None and (noted := value_at(live, *_ANNOTATIONS, note)) is not None:
            draft.set(noted, *_ANNOTATIONS, note)
    if hold_at is not None and draft.get("spec", "updateStrategy", "type") != "OnDelete":
        draft.set(hold_at, *ROLLING, "partition")
    return Application(manifest=author, body=draft.document)


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
    hold_at: IntOrPercent | None,
    *,
    manager: str,
    taken_over: Sequence[str] = (),
    show_values: bool,
) -> Edit:
    """The edit that turns the live document into `expected`, which is what the server makes of `application`.

    `snapshot`: its document has no uid where the object does not exist yet. `taken_over`: fields of other managers.
    """
    live, is_new = snapshot.document, value_at(snapshot.document, "metadata", "uid") is None
    operations = _operations(live, expected)
    if not operations and not is_new:
        return _change_of_managers(live, application, expected, manager)
    lines = object_change_lines({} if is_new else live, expected, show_values=show_values)
    rollout = rollout_after(snapshot, operations)
    then = replace(snapshot, daemonset=rollout.world.daemonset) if rollout else snapshot
    course = () if rollout is None else (_first_pods(rollout),) if is_new else course_words(snapshot, rollout)
    return Edit(
        result="created" if is_new else "configured",
        operations=operations,
        application=application,
        details=(*lines, *taken_over, *course),
        warnings=cautions(snapshot, unused_hold_caution(then, hold_at), pause_caution(then)),
    )


def _change_of_managers(live: JSONObject, application: Application, expected: JSONObject, manager: str) -> Edit:
    """The edit where at most the managers of fields change. Without it a field that the manifest has no longer would
    stay the next time."""
    before, after = (field_owners.applied_fields(one, manager, application.manifest) for one in (live, expected))
    if before == after and not field_owners.client_side_managers(live):
        return Edit(result="unchanged", operations=())
    managers: list[JSON] = [*field_owners.entries(expected)]
    return Edit(
        result="configured",
        operations=(patch.add(managers, "metadata", "managedFields"),),
        application=application,
        details=(f"only the manager of its fields changes: {manager}",),
    )


def _first_pods(rollout: RolloutState) -> str:
    """What a new object starts with. It has no old pods for a partition to keep, though partitionedScaling may keep
    nodes waiting."""
    desired = rollout.budget.desired
    first = len(planned_moves(rollout).starting) if rollout.world.daemonset.partitioned_scaling else desired
    return f"{first} of {desired} nodes get their first pod"


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
