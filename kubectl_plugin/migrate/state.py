"""One DaemonSet in two forms, native and Advanced, and the annotation that both carry during the migration.

The creator of an object manages all of its fields. Left so, each server-side apply of the manifest would conflict,
and fields that the manifest no longer has would stay for ever: so `metadata.managedFields` of one side are rewritten
for the other.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from controller.api.names import API_VERSION, KIND
from controller.api.objects import JSON, JSONObject, Value, fields_of, items_of, value_at
from kubectl_plugin.changes.apply import last_applied, note_of
from kubectl_plugin.changes.edit import Draft
from kubectl_plugin.rollout.snapshot import LAST_APPLIED

FIELD: Final = ("metadata", "managedFields")
NATIVE_VERSION: Final = "apps/v1"
_ITEMWISE: Final = (
    ("f:spec", "f:template", "f:spec", "f:containers"),
    ("f:spec", "f:template", "f:spec", "f:initContainers"),
)
"""Lists in the spec of ours whose items may have a manager each. The CRD's schema has no keys for other lists, so
each of them has managers as a whole only."""
MARK: Final = "kruise-ds/migration"
"""Annotation on both DaemonSets: the settings that each gets when the migration is over."""
FINALIZER: Final = "kruise-ds/migration"
"""Finalizer on ours: it keeps the deleted object readable, because only that says what the native one must become."""
EVERYBODY: Final = "100%"
FROZEN: Final[JSONObject] = {"type": "OnDelete"}
"""The strategy of a native DaemonSet during the migration: it replaces lost pods and updates none."""
SHARED: Final = ("selector", "template", "minReadySeconds", "revisionHistoryLimit")
"""Fields that both kinds have in their spec; the update strategies differ."""
_STRATEGY: Final = ("spec", "updateStrategy")
_SCALE: Final = ("spec", "scaleStrategy")
_MARKED: Final = ("metadata", "annotations", MARK)
GENERATION: Final = "deprecated.daemonset.template.generation"
"""Annotation of a native DaemonSet: how often its template was changed. Its pods carry that number as a label, and
its controller takes pods with the newest number for current ones, whatever their revision is."""
_NATIVE_ONLY: Final = (GENERATION, "argocd.argoproj.io/tracking-id")
"""Annotations that are only true of the native object."""
OUR_PREFIXES: Final = ("kruise-ds/", "daemonset.kruise.io/", "apps.kruise.io/")
"""Prefixes of annotations that mean nothing to the native kind."""
_OURS_ONLY: Final = (*OUR_PREFIXES, LAST_APPLIED, *_NATIVE_ONLY)


def managers_of(document: JSONObject) -> tuple[JSONObject, ...]:
    """The field managers of a document, without those of its status."""
    return tuple(one for one in items_of(value_at(document, *FIELD)) if not one.get("subresource"))


def managers_for(managers: tuple[JSONObject, ...], document: JSONObject) -> list[JSON]:
    """`managers` for `document`, which may be of the other kind: without the fields that it does not have."""
    version = str(document["apiVersion"])
    made: list[JSON] = []
    for one in managers:
        if _is_native(one.get("apiVersion")) == _is_native(version):
            made.append(one)
        elif fields := _fields_in(fields_of(one.get("fieldsV1")), document, (), whole_lists=not _is_native(version)):
            made.append({**one, "apiVersion": version, "fieldsV1": fields})
    return made


def _is_native(version: JSON) -> bool:
    return version == NATIVE_VERSION


def _fields_in(fields: JSONObject, value: JSON, path: tuple[str, ...], *, whole_lists: bool) -> JSONObject:
    """The entries of `fields` (fieldsV1) whose field exists in `value`. An empty result: none exists. An empty entry:
    the field as a whole."""
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
    """The member of `value` that a key of fieldsV1 names: `f:NAME` of an object, or of a list `k:FIELDS` (the item
    with these fields) and `v:ITEM`. None: there is no such member."""
    how, _, text = key.partition(":")
    if how == "f":
        return fields_of(value).get(text)
    wanted = msgspec.json.decode(text)
    if how == "k":
        return next((one for one in items_of(value) if wanted.items() <= one.items()), None)
    return wanted if isinstance(value, list) and wanted in value else None


class Mark(Value):
    """The value of the annotation `MARK`."""

    strategy: JSONObject
    """`spec.updateStrategy` when the migration is over."""
    scale: JSONObject | None = None
    """`spec.scaleStrategy` of ours when the migration is over."""
    uid: str = ""
    """On ours: uid of the native DaemonSet that it was made from; empty if ours is to become native."""
    hold: bool = False
    """Whether nodes with an older revision are to keep it when the migration is over."""
    managers: tuple[JSONObject, ...] = ()
    """`metadata.managedFields` when the migration is over: those of the object that it began with."""
    acting: bool = False
    """The object is already in charge of the pods; only its `managers` are still to be written."""

    def holds(self, old: int) -> bool:
        """Whether something has to be set so that `old` nodes keep their older revision."""
        return self.hold and old > 0 and self.strategy.get("type") != "OnDelete"


def mark_of(document: JSONObject) -> Mark | None:
    """None if there is no such annotation, or one that the plugin has not written."""
    text = value_at(document, *_MARKED)
    try:
        return msgspec.json.decode(text, type=Mark) if isinstance(text, str) else None
    except msgspec.MsgspecError:
        return None


def mark_text(mark: Mark) -> str:
    return msgspec.json.encode(mark).decode()


def as_ours(native: JSONObject) -> JSONObject:
    """Ours as it should be when the migration of `native` is over."""
    spec: JSONObject = {key: value for key in SHARED if (value := value_at(native, "spec", key)) is not None}
    spec["updateStrategy"] = wanted_strategy(native)
    kept = {key: text for key, text in _annotations(native).items() if key not in (*_NATIVE_ONLY, LAST_APPLIED, MARK)}
    if note := last_applied(native):
        kept[LAST_APPLIED] = note_of({**note, "apiVersion": API_VERSION})
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": _metadata(native, kept), "spec": spec}


def as_native(ours: JSONObject) -> JSONObject:
    """The native DaemonSet as it should be at the end, as far as that kind has the fields of ours."""
    spec: JSONObject = {key: value for key in SHARED if (value := value_at(ours, "spec", key)) is not None}
    noted = mark_of(ours)
    spec["updateStrategy"] = native_strategy(noted.strategy if noted else fields_of(value_at(ours, *_STRATEGY)))
    kept = {key: text for key, text in _annotations(ours).items() if not key.startswith(_OURS_ONLY)}
    if note := last_applied(ours):
        kept[LAST_APPLIED] = note_of(_as_native_manifest(note))
    return {"apiVersion": NATIVE_VERSION, "kind": KIND, "metadata": _metadata(ours, kept), "spec": spec}


def as_it_is(document: JSONObject) -> JSONObject:
    """Either side without the fields that the server and the plugin have added."""
    kept = {key: text for key, text in _annotations(document).items() if key not in (*_NATIVE_ONLY, MARK)}
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
    """Ours at the start: it takes over pods but creates none on nodes without one, and updates none."""
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


def stop_updates_of_ours(ours: JSONObject) -> tuple[JSONObject, ...]:
    """Operations after which ours updates nothing, and stays readable when it is deleted. It still replaces lost
    pods."""
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


def stop_creates_of_ours(ours: JSONObject) -> tuple[JSONObject, ...]:
    """Operations after which ours creates no pod either; empty if that is so already."""
    draft = Draft(ours)
    keep_all_still(draft)
    return draft.operations


def as_frozen_native(ours: JSONObject, generation: int) -> JSONObject:
    """The native DaemonSet at the start: it updates nothing yet. `generation`: of its template; no pod has it yet."""
    draft = Draft(as_native(ours))
    strategy = fields_of(draft.get(*_STRATEGY))
    draft.set(str(generation), "metadata", "annotations", GENERATION)
    draft.set(mark_text(Mark(strategy=strategy, hold=True, managers=_managers_at_first(ours))), *_MARKED)
    draft.set(dict(FROZEN), *_STRATEGY)
    return draft.document


def is_frozen(native: JSONObject) -> bool:
    """Whether our annotation and the strategy are both still there: applying a manifest in between replaces the
    strategy."""
    return mark_of(native) is not None and fields_of(value_at(native, *_STRATEGY)).get("type") == FROZEN["type"]


def wanted_strategy(native: JSONObject) -> JSONObject:
    """The strategy that the native DaemonSet is to have when the migration is over."""
    noted = mark_of(native)
    return noted.strategy if noted is not None and is_frozen(native) else fields_of(value_at(native, *_STRATEGY))


def copy_strategy(draft: Draft, mark: Mark, native: JSONObject) -> None:
    """Set the strategy that ours will get at the end to the one wanted for the native DaemonSet."""
    strategy = wanted_strategy(native)
    if mark.strategy != strategy:
        draft.set(mark_text(replace(mark, strategy=strategy)), *_MARKED)


def freeze_native(native: JSONObject) -> tuple[JSONObject, ...]:
    draft = Draft(native)
    mark = Mark(strategy=fields_of(draft.get(*_STRATEGY)), managers=_managers_at_first(native))
    draft.set(mark_text(mark), *_MARKED)
    draft.set(dict(FROZEN), *_STRATEGY)
    return draft.operations


def put_native_in_charge(native: JSONObject, mark: Mark, old: int) -> tuple[JSONObject, ...]:
    """Operations that put the native DaemonSet in charge. It has no partition: where `old` nodes are to keep their
    pods it goes on updating nothing."""
    draft = Draft(native)
    if not mark.holds(old):
        draft.set(mark.strategy, *_STRATEGY)
    _conclude(draft, mark)
    return draft.operations


def put_ours_in_charge(ours: JSONObject, mark: Mark, old: int) -> tuple[JSONObject, ...]:
    """Operations that put ours in charge, with a partition that keeps `old` nodes on their revision."""
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


def give_back_managers(document: JSONObject, mark: Mark) -> tuple[JSONObject, ...]:
    """The last write to either side: its fields get their former managers back. Not earlier, because each later
    change would make the plugin the manager of the changed field."""
    draft = Draft(document)
    draft.drop(*_MARKED)
    draft.set(managers_for(mark.managers, document), *FIELD)
    return draft.operations


def remove_finalizer(ours: JSONObject) -> tuple[JSONObject, ...]:
    draft = Draft(ours)
    _drop_finalizer(draft)
    return draft.operations


def keep_all_still(draft: Draft) -> None:
    rolling = fields_of(draft.get(*_STRATEGY, "rollingUpdate"))
    draft.set({"type": "RollingUpdate", "rollingUpdate": {**rolling, "partition": EVERYBODY}}, *_STRATEGY)
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
    """kubectl's copy of the manifest without fields that the native kind lacks: kubectl refuses to compare with
    those."""
    theirs = fields_of(note.get("spec"))
    spec: JSONObject = {key: theirs[key] for key in SHARED if key in theirs}
    if "updateStrategy" in theirs:
        spec["updateStrategy"] = native_strategy(fields_of(theirs["updateStrategy"]))
    return {**note, "apiVersion": NATIVE_VERSION, "spec": spec}
