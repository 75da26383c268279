"""What a PUT or a patch may change of an object: the rules that hold for every kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.beds.simulator import refusal
from tests.beds.simulator.objects import Cause, Kind, Object, Stored
from tests.beds.simulator.resizing import resize_causes, resized
from tests.beds.simulator.syntax import immutable

SERVER_OWNED = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


@dataclass(frozen=True)
class UpdateRequest:
    """One update that a client asks for."""

    apply: Callable[[Object], Object]
    """Makes the new object out of a copy of the old one; apiVersion and kind are not in it."""
    subresource: str = ""
    put: bool = False
    """The whole object was sent: a foreign uid is then a conflict, and the version may be missing."""
    manager: str = ""
    """Who asks for it, as a field manager."""


def settle(before: Stored, change: UpdateRequest) -> Object:
    """The object as it would be stored. Raises 409 and 422."""
    kind, name = before.kind, before.name[1]
    new = change.apply(before.copy())
    metadata = new.setdefault("metadata", {})
    _guard(before, metadata, change)
    old = before.object
    if change.subresource == "status":
        new = _status_part(kind, old, new)
    elif change.subresource == "resize":
        new = resized(old, new, change.manager)
    elif kind.status and not change.subresource:
        kind.fills(new)
        new = _main_part(old, new)
    metadata = new["metadata"]
    for field in SERVER_OWNED:
        _restore(metadata, before.metadata, field)
    metadata["uid"], metadata["name"] = before.uid, name
    metadata["resourceVersion"] = before.metadata["resourceVersion"]
    if before.name[0]:
        metadata["namespace"] = before.name[0]
    if not metadata.get("finalizers"):
        metadata.pop("finalizers", None)
    if not metadata.get("ownerReferences"):
        metadata.pop("ownerReferences", None)
    count_spec(before, new, change)
    causes = _finalizer_causes(before, metadata)
    if change.subresource in ("", "status"):
        causes += kind.rules(new, old)
    elif change.subresource == "resize":
        causes += resize_causes(new, old)
    if causes:
        raise refusal.invalid(kind, name, causes)
    return new


def count_spec(before: Stored, new: Object, change: UpdateRequest) -> None:
    """The generation that `new` has. It is counted after webhooks: what they put back was never changed."""
    if before.kind.generation and change.subresource != "binding":
        changed = _spec_part(before.object) != _spec_part(new)
        new["metadata"]["generation"] = before.metadata["generation"] + changed


def _guard(before: Stored, metadata: Object, change: UpdateRequest) -> None:
    kind, name = before.kind, before.name[1]
    uid, version = metadata.get("uid") or "", metadata.get("resourceVersion") or ""
    if change.put and uid and uid != before.uid:
        raise refusal.conflict(kind, name, refusal.wrong_uid(before, uid))
    if not version and not kind.unconditional_update:
        raise refusal.version_missing(kind, name)
    if version and version != str(before.version):
        raise refusal.conflict(kind, name, refusal.MODIFIED_MEANWHILE)
    if uid and uid != before.uid:
        raise refusal.invalid(kind, name, 2 * [immutable("metadata.uid", f'"{uid}"')])  # it is looked at twice


def _main_part(old: Object, new: Object) -> Object:
    """The main resource never touches the status."""
    merged = {key: value for key, value in new.items() if key != "status"}
    if "status" in old:
        merged["status"] = old["status"]
    return merged


def _status_part(kind: Kind, old: Object, new: Object) -> Object:
    """The status subresource: of custom kinds nothing but the status, of built-in ones metadata too."""
    merged = {key: value for key, value in old.items() if key != "status"}
    merged["metadata"] = dict(old["metadata"] if kind.custom else new["metadata"])
    if not kind.custom:
        _restore(merged["metadata"], old["metadata"], "ownerReferences")
    if "status" in new:
        merged["status"] = new["status"]
    return merged


def _restore(metadata: Object, old: Object, field: str) -> None:
    if field in old:
        metadata[field] = old[field]
    else:
        metadata.pop(field, None)


def _spec_part(found: Object) -> Object:
    return {key: value for key, value in found.items() if key not in ("metadata", "status")}


def _finalizer_causes(before: Stored, metadata: Object) -> list[Cause]:
    if "deletionTimestamp" not in before.metadata:
        return []
    known = before.metadata.get("finalizers") or []
    added = [name for name in metadata.get("finalizers") or [] if name not in known]
    if not added:
        return []
    listed = ", ".join(f'"{name}"' for name in added)
    words = (
        "Forbidden: no new finalizers can be added if the object is being deleted, "
        f"found new finalizers []string{{{listed}}}"
    )
    return 2 * [Cause("metadata.finalizers", "FieldValueForbidden", words)]  # it is looked at twice
