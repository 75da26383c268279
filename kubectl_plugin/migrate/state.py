"""The native and the Advanced form of a DaemonSet, and the annotation that both carry during the migration. The
creator of an object manages all of its fields, so that server-side applies would conflict and never remove one: the
`managedFields` of one side are therefore rewritten for the other.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from controller.api.names import API_VERSION, KIND
from controller.api.objects import JSON, JSONObject, Value, fields_of, items_of, value_at
from kubectl_plugin.changes.apply import last_applied, note_of
from kubectl_plugin.changes.edit import Draft, Operation
from kubectl_plugin.rollout.snapshot import LAST_APPLIED

FIELD: Final = ("metadata", "managedFields")
NATIVE_VERSION: Final = "apps/v1"
_ITEMWISE: Final = (
    ("f:spec", "f:template", "f:spec", "f:containers"),
    ("f:spec", "f:template", "f:spec", "f:initContainers"),
)
"""Lists in the Advanced spec whose items have managers of their own; the CRD's schema has no keys for others."""
MIGRATION: Final = "kruise-ds/migration"
"""Annotation on both DaemonSets, with their settings for the end of the migration."""
FINALIZER: Final = "kruise-ds/migration"
"""Finalizer that keeps the deleted Advanced DaemonSet, the only record of the native one to create, readable."""
EVERY_POD: Final = "100%"
FROZEN: Final[JSONObject] = {"type": "OnDelete"}
"""Strategy of a native DaemonSet during the migration: lost pods are replaced, none is updated."""
SHARED: Final = ("selector", "template", "minReadySeconds", "revisionHistoryLimit")
"""Spec fields of both kinds; the update strategies differ."""
_STRATEGY: Final = ("spec", "updateStrategy")
_SCALE: Final = ("spec", "scaleStrategy")
_MARKED: Final = ("metadata", "annotations", MIGRATION)
GENERATION: Final = "deprecated.daemonset.template.generation"
"""Annotation that counts changes of the template. The native controller takes pods labelled with the newest number
for current, whatever their revision."""
_NATIVE_ONLY: Final = (GENERATION, "argocd.argoproj.io/tracking-id")
OUR_PREFIXES: Final = ("kruise-ds/", "daemonset.kruise.io/", "apps.kruise.io/")
"""Prefixes of annotations without a meaning for the native kind."""
_OURS_ONLY: Final = (*OUR_PREFIXES, LAST_APPLIED, *_NATIVE_ONLY)


def managers_of(document: JSONObject) -> tuple[JSONObject, ...]:
    """Field managers other than those of the status."""
    return tuple(item for item in items_of(value_at(document, *FIELD)) if not item.get("subresource"))


def managers_for(managers: tuple[JSONObject, ...], document: JSONObject) -> list[JSON]:
    """`managers` without the fields that `document`, perhaps of the other kind, does not have."""
    version = str(document["apiVersion"])
    made: list[JSON] = []
    for manager in managers:
        if _is_native(manager.get("apiVersion")) == _is_native(version):
            made.append(manager)
        elif fields := _fields_in(
            fields_of(manager.get("fieldsV1")), document, (), whole_lists=not _is_native(version)
        ):
            made.append({**manager, "apiVersion": version, "fieldsV1": fields})
    return made


def _is_native(version: JSON) -> bool:
    return version == NATIVE_VERSION


def _fields_in(fields: JSONObject, value: JSON, path: tuple[str, ...], *, whole_lists: bool) -> JSONObject:
    """Entries of `fields` (fieldsV1) whose field exists in `value`. An empty entry means the field as a whole."""
    kept: JSONObject = {}
    for key, below in fields.items():
        part = value if key == "." else _member(value, key)
        if part is None:
            continue
        inner = fields_of(below)
        whole = whole_lists and isinstance(part, list) and path[:1] == ("f:spec",) and (*path, key) not in _ITEMWISE
        if whole or not inner:
            kept[key] = {}
        elif left := _fields_in(inner, part, (*path, key), whole_lists=whole_lists):
            kept[key] = left
    return kept


def _member(value: JSON, key: str) -> JSON:
    """The member that a fieldsV1 key names: `f:NAME`, or in a list `k:FIELDS` and `v:ITEM`; None if absent."""
    how, _, text = key.partition(":")
    if how == "f":
        return fields_of(value).get(text)
    wanted = msgspec.json.decode(text)
    if how == "k":
        return next((item for item in items_of(value) if wanted.items() <= item.items()), None)
    return wanted if isinstance(value, list) and wanted in value else None


class Mark(Value):
    """`strategy`, `scale` and `managers` (`managedFields`) are what the object gets at the end."""

    strategy: JSONObject
    scale: JSONObject | None = None
    uid: str = ""
    """UID of the native DaemonSet that an Advanced one was made from; empty on the way to native."""
    hold: bool = False
    """Whether nodes keep an older revision after the migration."""
    managers: tuple[JSONObject, ...] = ()
    acting: bool = False
    """The object is in charge of the pods; only its `managers` remain to be written."""

    def holds(self, old: int) -> bool:
        """Whether a setting is needed for `old` nodes to keep their revision."""
        return self.hold and old > 0 and self.strategy.get("type") != "OnDelete"


def mark_of(document: JSONObject) -> Mark | None:
    """None without a valid annotation."""
    text = value_at(document, *_MARKED)
    try:
        return msgspec.json.decode(text, type=Mark) if isinstance(text, str) else None
    except msgspec.MsgspecError:
        return None


def mark_text(mark: Mark) -> str:
    return msgspec.json.encode(mark).decode()


def as_ours(native: JSONObject) -> JSONObject:
    """The Advanced DaemonSet at the end of the migration."""
    spec: JSONObject = {key: value for key in SHARED if (value := value_at(native, "spec", key)) is not None}
    spec["updateStrategy"] = wanted_strategy(native)
    kept = {
        key: text for key, text in _annotations(native).items() if key not in (*_NATIVE_ONLY, LAST_APPLIED, MIGRATION)
    }
    if note := last_applied(native):
        kept[LAST_APPLIED] = note_of({**note, "apiVersion": API_VERSION})
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": _metadata(native, kept), "spec": spec}


def as_native(ours: JSONObject) -> JSONObject:
    """The native DaemonSet at the end of the migration, with the fields that it supports."""
    spec: JSONObject = {key: value for key in SHARED if (value := value_at(ours, "spec", key)) is not None}
    noted = mark_of(ours)
    spec["updateStrategy"] = native_strategy(noted.strategy if noted else fields_of(value_at(ours, *_STRATEGY)))
    kept = {key: text for key, text in _annotations(ours).items() if not key.startswith(_OURS_ONLY)}
    if note := last_applied(ours):
        kept[LAST_APPLIED] = note_of(_as_native_manifest(note))
    return {"apiVersion": NATIVE_VERSION, "kind": KIND, "metadata": _metadata(ours, kept), "spec": spec}


def as_it_is(document: JSONObject) -> JSONObject:
    """Without fields added by the server or the plugin."""
    kept = {key: text for key, text in _annotations(document).items() if key not in (*_NATIVE_ONLY, MIGRATION)}
    fields: JSONObject = {key: document[key] for key in ("apiVersion", "kind", "spec")}
    return {**fields, "metadata": _metadata(document, kept)}


def native_strategy(strategy: JSONObject) -> JSONObject:
    if strategy.get("type") == "OnDelete":
        return dict(FROZEN)
    rolling = fields_of(strategy.get("rollingUpdate"))
    surge = rolling.get("maxSurge", 1 if rolling.get("rollingUpdateType") == "Surging" else None)
    limits: JSONObject = {"maxUnavailable": rolling.get("maxUnavailable"), "maxSurge": surge}
    given: JSONObject = {key: value for key, value in limits.items() if value is not None}
    if surge not in (None, 0, "0%"):
        given["maxUnavailable"] = 0  # its default is 1, and the server refuses both together
    return {"type": "RollingUpdate", "rollingUpdate": given} if given else {"type": "RollingUpdate"}


def as_waiting_ours(native: JSONObject) -> JSONObject:
    """The Advanced DaemonSet at the start: it adopts pods, but creates and updates none."""
    draft = Draft(as_ours(native))
    mark = Mark(
        strategy=fields_of(draft.get(*_STRATEGY)),
        uid=str(value_at(native, "metadata", "uid")),
        hold=True,
        managers=_managers_at_first(native),
    )
    draft.set(mark_text(mark), *_MARKED)
    keep_all_still(draft)
    return draft.document


def stop_updates_of_ours(ours: JSONObject) -> tuple[Operation, ...]:
    """Stops updates, and keeps the object readable once deleted. Lost pods are still replaced."""
    draft = Draft(ours)
    scale = draft.get(*_SCALE)
    fresh = Mark(
        strategy=fields_of(draft.get(*_STRATEGY)),
        scale=scale if isinstance(scale, dict) else None,
        managers=_managers_at_first(ours),
    )
    draft.set(mark_text(replace(mark_of(ours) or fresh, uid="")), *_MARKED)
    listed = draft.get("metadata", "finalizers")
    draft.set([*(listed if isinstance(listed, list) else []), FINALIZER], "metadata", "finalizers")
    if draft.get(*_STRATEGY, "type") != FROZEN["type"]:
        draft.set(True, *_STRATEGY, "rollingUpdate", "paused")
    return draft.operations


def stop_creates_of_ours(ours: JSONObject) -> tuple[Operation, ...]:
    """Stops creating pods too; empty if that is done."""
    draft = Draft(ours)
    keep_all_still(draft)
    return draft.operations


def as_frozen_native(ours: JSONObject, generation: int) -> JSONObject:
    """The native DaemonSet at the start: it updates nothing. `generation`: a template generation that no pod is
    labelled with."""
    draft = Draft(as_native(ours))
    strategy = fields_of(draft.get(*_STRATEGY))
    draft.set(str(generation), "metadata", "annotations", GENERATION)
    draft.set(mark_text(Mark(strategy=strategy, hold=True, managers=_managers_at_first(ours))), *_MARKED)
    draft.set(dict(FROZEN), *_STRATEGY)
    return draft.document


def is_frozen(native: JSONObject) -> bool:
    """Checks the strategy too: a manifest applied meanwhile replaces it but keeps the annotation."""
    return mark_of(native) is not None and fields_of(value_at(native, *_STRATEGY)).get("type") == FROZEN["type"]


def wanted_strategy(native: JSONObject) -> JSONObject:
    noted = mark_of(native)
    return noted.strategy if noted is not None and is_frozen(native) else fields_of(value_at(native, *_STRATEGY))


def copy_strategy(draft: Draft, mark: Mark, native: JSONObject) -> None:
    """Sets the strategy for the end of the migration to that of the native DaemonSet."""
    strategy = wanted_strategy(native)
    if mark.strategy != strategy:
        draft.set(mark_text(replace(mark, strategy=strategy)), *_MARKED)


def freeze_native(native: JSONObject) -> tuple[Operation, ...]:
    draft = Draft(native)
    mark = Mark(strategy=fields_of(draft.get(*_STRATEGY)), managers=_managers_at_first(native))
    draft.set(mark_text(mark), *_MARKED)
    draft.set(dict(FROZEN), *_STRATEGY)
    return draft.operations


def put_native_in_charge(native: JSONObject, mark: Mark, old: int) -> tuple[Operation, ...]:
    """Without a partition, the native DaemonSet goes on updating nothing if `old` nodes are to keep their pods."""
    draft = Draft(native)
    if not mark.holds(old):
        draft.set(mark.strategy, *_STRATEGY)
    _conclude(draft, mark)
    return draft.operations


def put_ours_in_charge(ours: JSONObject, mark: Mark, old: int) -> tuple[Operation, ...]:
    """A partition keeps `old` nodes on their revision."""
    draft = Draft(ours)
    draft.set(mark.strategy, *_STRATEGY)
    if mark.holds(old):
        draft.set(old, *_STRATEGY, "rollingUpdate", "partition")
    if mark.scale is None:
        draft.drop(*_SCALE)
    else:
        draft.set(mark.scale, *_SCALE)
    _conclude(draft, mark)
    _drop_finalizer(draft)
    return draft.operations


def give_back_managers(document: JSONObject, mark: Mark) -> tuple[Operation, ...]:
    """Must be the last write: each change makes the plugin the manager of the changed field."""
    draft = Draft(document)
    draft.drop(*_MARKED)
    draft.set(managers_for(mark.managers, document), *FIELD)
    return draft.operations


def remove_finalizer(ours: JSONObject) -> tuple[Operation, ...]:
    draft = Draft(ours)
    _drop_finalizer(draft)
    return draft.operations


def keep_all_still(draft: Draft) -> None:
    rolling = fields_of(draft.get(*_STRATEGY, "rollingUpdate"))
    draft.set({"type": "RollingUpdate", "rollingUpdate": {**rolling, "partition": EVERY_POD}}, *_STRATEGY)
    draft.set(True, *_SCALE, "partitionedScaling")


def _conclude(draft: Draft, mark: Mark) -> None:
    if mark.managers:
        draft.set(mark_text(replace(mark, uid="", acting=True)), *_MARKED)
    else:
        draft.drop(*_MARKED)


def _managers_at_first(document: JSONObject) -> tuple[JSONObject, ...]:
    noted = mark_of(document)
    return noted.managers if noted else managers_of(document)


def _drop_finalizer(draft: Draft) -> None:
    listed = draft.get("metadata", "finalizers")
    if isinstance(listed, list) and FINALIZER in listed:
        draft.set([one for one in listed if one != FINALIZER], "metadata", "finalizers")


def _metadata(document: JSONObject, annotations: dict[str, JSON]) -> JSONObject:
    fields: JSONObject = {key: value_at(document, "metadata", key) for key in ("name", "namespace")}
    labels = value_at(document, "metadata", "labels")
    return {**fields, **({"labels": labels} if labels else {}), "annotations": annotations}


def _annotations(document: JSONObject) -> dict[str, JSON]:
    return dict(fields_of(value_at(document, "metadata", "annotations")))


def _as_native_manifest(note: JSONObject) -> JSONObject:
    """The last-applied manifest without fields that the native kind lacks: kubectl refuses to compare those."""
    theirs = fields_of(note.get("spec"))
    spec: JSONObject = {key: theirs[key] for key in SHARED if key in theirs}
    if "updateStrategy" in theirs:
        spec["updateStrategy"] = native_strategy(fields_of(theirs["updateStrategy"]))
    return {**note, "apiVersion": NATIVE_VERSION, "spec": spec}
