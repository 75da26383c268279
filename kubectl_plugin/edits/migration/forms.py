"""One DaemonSet in two forms, native and Advanced, and the annotation that either has during its migration."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from controller.api.base import JSON, JSONObject, Value, fields_of
from controller.api.wellknown import API_VERSION, KIND
from kubectl_plugin.edits.applying import Draft, found
from kubectl_plugin.edits.manifest import LAST_APPLIED, last_applied, note_of
from kubectl_plugin.edits.migration.managers import FIELD, NATIVE_VERSION, fitted, managers_of

MARK: Final = "kruise-ds/migration"
"""Annotation on either object: how it is to be when all is done."""
FINALIZER: Final = "kruise-ds/migration"
"""On ours: it was deleted and is still needed, to know what the native one is to be."""
EVERYBODY: Final = "100%"
FROZEN: Final[JSONObject] = {"type": "OnDelete"}
"""Of a native DaemonSet: it replaces what is lost, and updates nothing."""
SHARED: Final = ("selector", "template", "minReadySeconds", "revisionHistoryLimit")
"""What both have in their spec; the update strategies differ."""
_STRATEGY: Final = ("spec", "updateStrategy")
_SCALE: Final = ("spec", "scaleStrategy")
_MARKED: Final = ("metadata", "annotations", MARK)
GENERATION: Final = "deprecated.daemonset.template.generation"
"""Annotation of a native one: how often its template was changed. Its pods have that number as a label, and one with
the newest number is current for its controller, whatever its revision is."""
_NATIVE_ONLY: Final = (GENERATION, "argocd.argoproj.io/tracking-id")
"""Annotations that are true of the native object only."""
_OURS_ONLY: Final = ("kruise-ds/", "daemonset.kruise.io/", "apps.kruise.io/", LAST_APPLIED[-1], *_NATIVE_ONLY)


class Mark(Value):
    """The note."""

    strategy: JSONObject
    """`spec.updateStrategy` at the end."""
    scale: JSONObject | None = None
    """`spec.scaleStrategy` of ours at the end."""
    uid: str = ""
    """On ours: of the native one that it was made from; empty where it is to become a native one."""
    hold: bool = False
    """Whether nodes with an older revision are to keep it at the end."""
    managers: tuple[JSONObject, ...] = ()
    """`metadata.managedFields` at the end, as the one had it that all began with."""
    acting: bool = False
    """It is in charge, and only its managers are missing."""

    def holds(self, old: int) -> bool:
        """Whether something has to be done so that `old` nodes keep it."""
        return self.hold and old > 0 and self.strategy.get("type") != "OnDelete"


def mark_of(document: JSONObject) -> Mark | None:
    """None where there is none, or one that is not ours."""
    text = found(document, *_MARKED)
    try:
        return msgspec.json.decode(text, type=Mark) if isinstance(text, str) else None
    except msgspec.MsgspecError:
        return None


def marked(mark: Mark) -> str:
    return msgspec.json.encode(mark).decode()


def as_ours(native: JSONObject) -> JSONObject:
    """As it should be at the end."""
    spec: JSONObject = {key: value for key in SHARED if (value := found(native, "spec", key)) is not None}
    spec["updateStrategy"] = wanted_strategy(native)
    kept = {
        key: text for key, text in _annotations(native).items() if key not in (*_NATIVE_ONLY, LAST_APPLIED[-1], MARK)
    }
    if note := last_applied(native):
        kept[LAST_APPLIED[-1]] = note_of({**note, "apiVersion": API_VERSION})
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": _metadata(native, kept), "spec": spec}


def as_native(ours: JSONObject) -> JSONObject:
    """As it should be at the end, as far as a native one can be like it."""
    spec: JSONObject = {key: value for key in SHARED if (value := found(ours, "spec", key)) is not None}
    noted = mark_of(ours)
    spec["updateStrategy"] = native_strategy(noted.strategy if noted else fields_of(found(ours, *_STRATEGY)))
    kept = {key: text for key, text in _annotations(ours).items() if not key.startswith(_OURS_ONLY)}
    if note := last_applied(ours):
        kept[LAST_APPLIED[-1]] = note_of(_native_note(note))
    return {"apiVersion": NATIVE_VERSION, "kind": KIND, "metadata": _metadata(ours, kept), "spec": spec}


def as_it_is(document: JSONObject) -> JSONObject:
    """Either of them, without what the server and we have noted on it."""
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
        given["maxUnavailable"] = 0  # its default is 1, and both together are refused
    return {"type": "RollingUpdate", "rollingUpdate": given} if given else {"type": "RollingUpdate"}


def waiting(native: JSONObject) -> JSONObject:
    """One of ours that takes over pods and makes none: no node without a pod of it gets one, and none is updated."""
    draft = Draft(as_ours(native))
    mark = Mark(
        strategy=fields_of(draft.get(*_STRATEGY)),
        uid=str(found(native, "metadata", "uid")),
        hold=True,
        managers=_managers(native),
    )
    draft.set(marked(mark), *_MARKED)
    hold_still(draft)
    return draft.document


def leaving(ours: JSONObject) -> tuple[JSONObject, ...]:
    """Operations after which it updates nothing, and may be deleted and still be read. What is lost it replaces."""
    draft = Draft(ours)
    scale = draft.get(*_SCALE)
    fresh = Mark(
        strategy=fields_of(draft.get(*_STRATEGY)),
        scale=scale if isinstance(scale, dict) else None,
        managers=_managers(ours),
    )
    draft.set(marked(replace(mark_of(ours) or fresh, uid="")), *_MARKED)
    listed = draft.get("metadata", "finalizers")
    draft.set([*(listed if isinstance(listed, list) else []), FINALIZER], "metadata", "finalizers")
    if draft.get(*_STRATEGY, "type") != FROZEN["type"]:
        draft.set(True, *_STRATEGY, "rollingUpdate", "paused")
    return draft.operations


def still(ours: JSONObject) -> tuple[JSONObject, ...]:
    """After which it makes no pod either; none where that is so."""
    draft = Draft(ours)
    hold_still(draft)
    return draft.operations


def frozen(ours: JSONObject, generation: int) -> JSONObject:
    """A new native one that updates nothing before it is thawed. `generation`: of its template, and no pod has it."""
    draft = Draft(as_native(ours))
    strategy = fields_of(draft.get(*_STRATEGY))
    draft.set(str(generation), "metadata", "annotations", GENERATION)
    draft.set(marked(Mark(strategy=strategy, hold=True, managers=_managers(ours))), *_MARKED)
    draft.set(dict(FROZEN), *_STRATEGY)
    return draft.document


def is_frozen(native: JSONObject) -> bool:
    """Somebody who applies his manifest meanwhile leaves our note and sets his strategy."""
    return mark_of(native) is not None and fields_of(found(native, *_STRATEGY)).get("type") == FROZEN["type"]


def wanted_strategy(native: JSONObject) -> JSONObject:
    """Which it is to have at the end."""
    noted = mark_of(native)
    return noted.strategy if noted is not None and is_frozen(native) else fields_of(found(native, *_STRATEGY))


def follow(draft: Draft, mark: Mark, native: JSONObject) -> None:
    """Ours is to have the strategy that the native one was to have."""
    strategy = wanted_strategy(native)
    if mark.strategy != strategy:
        draft.set(marked(replace(mark, strategy=strategy)), *_MARKED)


def freeze(native: JSONObject) -> tuple[JSONObject, ...]:
    draft = Draft(native)
    mark = Mark(strategy=fields_of(draft.get(*_STRATEGY)), managers=_managers(native))
    draft.set(marked(mark), *_MARKED)
    draft.set(dict(FROZEN), *_STRATEGY)
    return draft.operations


def thaw(native: JSONObject, mark: Mark, old: int) -> tuple[JSONObject, ...]:
    """From now on a native one acts. It has no partition: where old pods are to stay it goes on updating nothing."""
    draft = Draft(native)
    if not mark.holds(old):
        draft.set(mark.strategy, *_STRATEGY)
    _conclude(draft, mark)
    return draft.operations


def release(ours: JSONObject, mark: Mark, old: int) -> tuple[JSONObject, ...]:
    """From now on one of ours acts. `old` nodes keep what they have."""
    draft = Draft(ours)
    draft.set(mark.strategy, *_STRATEGY)
    if mark.holds(old):
        draft.set(old, *_STRATEGY, "rollingUpdate", "partition")
    if mark.scale is None:
        draft.drop(*_SCALE)
    else:
        draft.set(mark.scale, *_SCALE)
    _conclude(draft, mark)
    _let_go(draft)
    return draft.operations


def give_back(document: JSONObject, mark: Mark) -> tuple[JSONObject, ...]:
    """The last write to either: its fields have the managers that they had. Not before, since each field that is
    changed becomes that of the one who changes it."""
    draft = Draft(document)
    draft.drop(*_MARKED)
    draft.set(fitted(mark.managers, document), *FIELD)
    return draft.operations


def let_go(ours: JSONObject) -> tuple[JSONObject, ...]:
    draft = Draft(ours)
    _let_go(draft)
    return draft.operations


def hold_still(draft: Draft) -> None:
    rolling = fields_of(draft.get(*_STRATEGY, "rollingUpdate"))
    draft.set({"type": "RollingUpdate", "rollingUpdate": {**rolling, "partition": EVERYBODY}}, *_STRATEGY)
    draft.set(True, *_SCALE, "partitionedScaling")


def _conclude(draft: Draft, mark: Mark) -> None:
    if mark.managers:
        draft.set(marked(replace(mark, uid="", acting=True)), *_MARKED)
    else:
        draft.drop(*_MARKED)


def _managers(document: JSONObject) -> tuple[JSONObject, ...]:
    noted = mark_of(document)
    return noted.managers if noted else managers_of(document)


def _let_go(draft: Draft) -> None:
    listed = draft.get("metadata", "finalizers")
    if isinstance(listed, list) and FINALIZER in listed:
        draft.set([one for one in listed if one != FINALIZER], "metadata", "finalizers")


def _metadata(document: JSONObject, annotations: dict[str, JSON]) -> JSONObject:
    fields: JSONObject = {key: found(document, "metadata", key) for key in ("name", "namespace")}
    labels = found(document, "metadata", "labels")
    return {**fields, **({"labels": labels} if labels else {}), "annotations": annotations}


def _annotations(document: JSONObject) -> dict[str, JSON]:
    return dict(fields_of(found(document, "metadata", "annotations")))


def _native_note(note: JSONObject) -> JSONObject:
    """Without what a native one has no field for: kubectl refuses to compare a manifest with that."""
    theirs = fields_of(note.get("spec"))
    spec: JSONObject = {key: theirs[key] for key in SHARED if key in theirs}
    if "updateStrategy" in theirs:
        spec["updateStrategy"] = native_strategy(fields_of(theirs["updateStrategy"]))
    return {**note, "apiVersion": NATIVE_VERSION, "spec": spec}
