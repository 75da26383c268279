"""How an object leaves: at once, after a grace period on its node, or when the last finalizer is gone."""

from __future__ import annotations

from dataclasses import dataclass

from controller.api.objects import epoch, rfc3339
from tests.beds.simulator import refusal
from tests.beds.simulator.objects import Kind, Object, Stored

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


@dataclass(frozen=True)
class DeleteOptions:
    """The body of a DELETE."""

    uid: str = ""
    version: str = ""
    grace: int | None = None
    """Seconds; None leaves it to the object."""
    propagation: str = ""
    """Background, Foreground, Orphan or "" for the kind's default."""
    dry_run: bool = False


@dataclass(frozen=True)
class Deletion:
    """What a DELETE makes of the object."""

    object: Stored
    """With a deletionTimestamp, but for an object that goes at once and is no pod."""
    gone: bool
    """Nothing holds it."""


def deletion(before: Stored, options: DeleteOptions, now: float) -> Deletion:
    """What has to become of `before`. Raises 409 when a precondition does not hold."""
    _check_preconditions(before, options)
    grace = _grace(before.kind, before.object, options)
    new = before.copy()
    metadata = new["metadata"]
    finalizers = _finalizers(metadata, options)
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
    gone = not finalizers and grace == 0 and not _is_namespace_in_use(new)
    if gone and not before.kind.graceful:
        return Deletion(before, gone=True)
    if "deletionTimestamp" not in metadata:
        metadata["deletionTimestamp"] = rfc3339(now + grace)
        metadata["deletionGracePeriodSeconds"] = grace
        if "generation" in metadata:
            metadata["generation"] += 1
        if _is_namespace_in_use(new):
            new["status"]["phase"] = "Terminating"
    elif grace < metadata["deletionGracePeriodSeconds"] and before.kind.graceful:
        asked = (epoch(metadata["deletionTimestamp"]) or now) - metadata["deletionGracePeriodSeconds"]
        metadata["deletionTimestamp"] = rfc3339(asked + grace)
        metadata["deletionGracePeriodSeconds"] = grace
    if new == before.object:
        return Deletion(before, gone)
    return Deletion(Stored(before.kind, before.name, before.uid, before.version, new), gone)


def ends_with(new: Object) -> bool:
    """Whether this state of an object, which an update made, is its end: nothing holds it any more."""
    metadata = new["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers") or _is_namespace_in_use(new):
        return False
    return not metadata.get("deletionGracePeriodSeconds")


def _is_namespace_in_use(found: Object) -> bool:
    """Namespaces alone carry finalizers in their spec; the namespace controller takes them away."""
    spec = found.get("spec")
    return isinstance(spec, dict) and bool(spec.get("finalizers"))


def _check_preconditions(before: Stored, options: DeleteOptions) -> None:
    if options.uid and options.uid != before.uid:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({before.uid}). "
            "The object might have been deleted and then recreated"
        )
        raise refusal.precondition_failed(before.kind, before.name[1], why)
    if options.version and options.version != str(before.version):
        why = (
            f"the ResourceVersion in the precondition ({options.version}) does not match the ResourceVersion "
            f"in record ({before.version}). The object might have been modified"
        )
        raise refusal.precondition_failed(before.kind, before.name[1], why)


def _grace(kind: Kind, found: Object, options: DeleteOptions) -> int:
    """Seconds that the object has left; only pods on a node that have not ended get any."""
    if not kind.graceful:
        return 0
    spec, status = found["spec"], found.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ("Failed", "Succeeded"):
        return 0
    if options.grace is not None:
        return max(0, options.grace)
    pending = found["metadata"].get("deletionGracePeriodSeconds")
    default = spec.get("terminationGracePeriodSeconds", 30) if pending is None else pending
    return int(default)


def _finalizers(metadata: Object, options: DeleteOptions) -> list[str]:
    finalizers = list(metadata.get("finalizers") or [])
    if options.propagation:
        finalizers = [name for name in finalizers if name not in (FOREGROUND, ORPHAN)]
    if options.propagation == "Foreground":
        finalizers.append(FOREGROUND)
    if options.propagation == "Orphan":
        finalizers.append(ORPHAN)
    return finalizers
