"""How an object leaves: at once, after a grace period on its node, or when the last finalizer is gone; and the
garbage collector and the namespace controller of kube-controller-manager, without their delays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.api.objects import epoch, rfc3339
from tests.beds.simulator import refusal
from tests.beds.simulator.kinds import NAMESPACES
from tests.beds.simulator.objects import Kind, Object, Stored
from tests.beds.simulator.updates import UpdateRequest

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


if TYPE_CHECKING:
    from tests.beds.simulator.cluster import Cluster


class GarbageCollector:
    """Notes what may have become garbage and, when told to `run`, deals with it by ordinary writes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._suspects: dict[str, None] = {}
        self._leaving: dict[str, None] = {}
        """uids of objects that wait for their dependents."""
        self._namespaces: dict[str, None] = {}
        self._running = False

    def written(self, found: Stored) -> None:
        metadata = found.metadata
        if metadata.get("ownerReferences"):
            self._suspects[found.uid] = None
            self._revisit_owners(found)
        if metadata.get("deletionTimestamp"):
            if found.kind is NAMESPACES:
                self._namespaces[found.name[1]] = None
            self._leaving[found.uid] = None
            self._suspects |= dict.fromkeys(self._cluster.store.dependents.get(found.uid, ()))

    def removed(self, found: Stored) -> None:
        self._suspects |= dict.fromkeys(self._cluster.store.dependents.get(found.uid, ()))
        self._revisit_owners(found)
        if found.name[0]:
            self._namespaces[found.name[0]] = None

    def run(self) -> None:
        if self._running:  # our own writes end here again
            return
        self._running = True
        try:
            while self._suspects or self._leaving or self._namespaces:
                self._run_once()
        finally:
            self._running = False

    def _run_once(self) -> None:
        suspects, self._suspects = self._suspects, {}
        for uid in suspects:
            self._examine(uid)
        leaving, self._leaving = self._leaving, {}
        for uid in leaving:
            self._let_go(uid)
        namespaces, self._namespaces = self._namespaces, {}
        for namespace in namespaces:
            self._empty(namespace)

    def _revisit_owners(self, found: Stored) -> None:
        for owner in found.metadata.get("ownerReferences") or ():
            self._leaving[owner["uid"]] = None

    def _examine(self, uid: str) -> None:
        """Keep an object as long as it has an owner; references to owners that are gone go first."""
        found = self._cluster.store.by_uid.get(uid)
        if found is None or not (owners := found.metadata.get("ownerReferences")):
            return
        if found.metadata.get("deletionTimestamp") and not _has(found, FOREGROUND):
            return
        solid = [owner for owner in owners if self._is_solid(found, owner)]
        if solid:
            if len(solid) < len(owners):
                self._keep_owners(found, [owner["uid"] for owner in solid])
            return
        waiting = any(self._is_waiting(owner) for owner in owners)
        if waiting and self._cluster.store.owned_by(uid):
            self._delete(found, "Foreground")
        else:
            self._delete(found, "" if _has(found, FOREGROUND) or _has(found, ORPHAN) else "Background")

    def _is_solid(self, found: Stored, owner: Object) -> bool:
        there = self._cluster.store.by_uid.get(owner["uid"])
        if there is None or there.name[0] not in ("", found.name[0]):
            return False
        return not self._is_waiting(owner)

    def _is_waiting(self, owner: Object) -> bool:
        there = self._cluster.store.by_uid.get(owner["uid"])
        return there is not None and bool(there.metadata.get("deletionTimestamp")) and _has(there, FOREGROUND)

    def _let_go(self, uid: str) -> None:
        """Take the finalizer of a cascading delete away when nothing stands in the way any more."""
        found = self._cluster.store.by_uid.get(uid)
        if found is None or not found.metadata.get("deletionTimestamp"):
            return
        dependents = self._cluster.store.owned_by(uid)
        if _has(found, ORPHAN):
            for dependent in dependents:
                owners = dependent.metadata.get("ownerReferences") or []
                self._keep_owners(dependent, [owner["uid"] for owner in owners if owner["uid"] != uid])
            self._drop_finalizer(found, ORPHAN)
        elif _has(found, FOREGROUND) and not any(_blocks(dependent, uid) for dependent in dependents):
            self._drop_finalizer(found, FOREGROUND)

    def _keep_owners(self, found: Stored, uids: list[str]) -> None:
        def change(new: Object) -> Object:
            references = new["metadata"].get("ownerReferences") or []
            new["metadata"]["ownerReferences"] = [owner for owner in references if owner["uid"] in uids]
            return new

        self._cluster.update(found.kind, *found.name, UpdateRequest(change))

    def _drop_finalizer(self, found: Stored, finalizer: str) -> None:
        def change(new: Object) -> Object:
            new["metadata"]["finalizers"] = [name for name in new["metadata"]["finalizers"] if name != finalizer]
            return new

        self._cluster.update(found.kind, *found.name, UpdateRequest(change))

    def _delete(self, found: Stored, propagation: str) -> None:
        if found.metadata.get("deletionTimestamp") and propagation != "Foreground":
            return
        self._cluster.delete(found.kind, *found.name, DeleteOptions(uid=found.uid, propagation=propagation))

    def _empty(self, namespace: str) -> None:
        """Delete what is in a namespace that is to go, and the namespace when nothing is left."""
        store = self._cluster.store
        found = store.get(NAMESPACES, ("", namespace))
        if found is None or not found.metadata.get("deletionTimestamp"):
            return
        contents = [item for kind in _namespaced(store.objects) for item in list(store.objects[kind].values())]
        left = [item for item in contents if item.name[0] == namespace]
        for item in left:
            if not item.metadata.get("deletionTimestamp") and store.get(item.kind, item.name) is item:
                self._cluster.delete(item.kind, *item.name, DeleteOptions(uid=item.uid))
        if not left:
            self._cluster.update(NAMESPACES, "", namespace, UpdateRequest(_finalize, subresource="finalize"))


def _namespaced(kinds: dict[Kind, dict[tuple[str, str], Stored]]) -> list[Kind]:
    return [kind for kind in kinds if kind.namespaced]


def _finalize(namespace: Object) -> Object:
    namespace["spec"]["finalizers"] = []
    return namespace


def _has(found: Stored, finalizer: str) -> bool:
    return finalizer in (found.metadata.get("finalizers") or ())


def _blocks(dependent: Stored, uid: str) -> bool:
    owners = dependent.metadata.get("ownerReferences") or ()
    return any(owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in owners)
