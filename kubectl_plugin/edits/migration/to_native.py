"""The next step from one of ours to a native DaemonSet.

A native one cannot be told to wait: it makes a pod on each node where it owns none. So ours is deleted first, without
its pods, and stays to be read until the native one has taken over all of them. That one updates nothing until it is
sure that it takes their revision for the current one.
"""

from __future__ import annotations

from typing import Any

from controller.api import patch, revision
from controller.api.base import JSONObject
from kubectl_plugin.edits.applying import found
from kubectl_plugin.edits.migration import forms
from kubectl_plugin.edits.migration.sight import QUIET, Record, Side, Sight
from kubectl_plugin.edits.migration.step import (
    Change,
    Create,
    Delete,
    Done,
    Kind,
    Step,
    Wait,
    absent,
    both,
    changed,
    deleted,
)
from kubectl_plugin.failures import CommandError, ExitCode

COLLECTOR = ("kube-controller-manager does that: does it run?",)
CONTROLLER = ("kubectl kruise-ds doctor",)


def to_native(sight: Sight) -> Step:
    """Raises CommandError where there is nothing to start from, or not what it takes."""
    native, ours = sight.native, sight.ours
    if ours is None:
        return _alone(sight, native)
    if ours.dying:
        return _taking_over(sight, native, ours)
    if native is not None:
        return _back(sight, native, ours)
    return _leaving(sight, ours)


def _alone(sight: Sight, native: Side | None) -> Step:
    if native is None:
        raise absent(sight)
    if native.mark is None:
        return Done(says="is a native one", changed=False)
    return _thawed(sight, native)


def _back(sight: Sight, native: Side, ours: Side) -> Step:
    """Ours owns nothing yet, or the native one is on its way out and everything goes on from there."""
    if ours.mark is None or ours.mark.uid != native.uid:
        raise both(sight)
    if native.dying:
        left = len(sight.pods_of(native.uid)) + len(sight.revisions_of(native.uid))
        return Wait(what="the garbage collector to let go of the pods", left=left, hints=COLLECTOR)
    if sight.pods_of(ours.uid):
        raise both(sight)
    return Delete(
        kind=Kind.OURS, name=sight.name, uid=ours.uid, version=ours.version, orphan=False, says="is taken back"
    )


def _leaving(sight: Sight, ours: Side) -> Step:
    mark = ours.mark
    current = sight.current(ours)
    left = len(sight.pods_of("", mark.uid)) + len(sight.revisions_of("", mark.uid)) if mark is not None else 0
    if left:
        return Wait(what="our controller to take over pods and history", left=left, hints=CONTROLLER)
    if not ours.observed or current is None:
        return Wait(what="our controller to look at it", hints=CONTROLLER)
    if (twin := _twin(sight, ours, current)) is not None:
        return twin
    if not ours.kept:
        return changed(Kind.OURS, ours, sight.name, forms.leaving(ours.document), "makes and updates no pod any more")
    busy = [one for one in sight.pods_of(ours.uid) if one.busy]
    if busy:
        return Wait(what=f"{busy[0].name}: {busy[0].busy}", left=len(busy))
    if twice := sight.doubled(ours):
        return Wait(what=f"one pod on {', '.join(twice)}, where there are two", left=len(twice))
    deletion = Delete(
        kind=Kind.OURS,
        name=sight.name,
        uid=ours.uid,
        version=ours.version,
        orphan=True,
        says="deleted, its pods run on",
    )
    if sight.youngest(ours) < QUIET:
        return Wait(what=f"no new pod for {QUIET:g} s", otherwise=deletion)
    return deletion


def _twin(sight: Sight, ours: Side, current: Record) -> Step | None:
    """The native controller takes a revision for the current one if its bytes are those that it would write itself:
    so one is stored that has them, and the hash that the pods carry. Our controller keeps it for its own."""
    wanted = _bytes(sight.as_native or {})
    if _bytes(current.template) == wanted:
        return None
    if any(_bytes(one.template) == wanted and one.hash == current.hash for one in sight.revisions_of("", ours.uid)):
        return Wait(what="our controller to take over the revision", hints=CONTROLLER)
    return Create(
        kind=Kind.REVISION,
        name=f"{sight.name}-{revision.short_hash(wanted.decode(), current.name, length=10)}",
        body=_revision(sight, current),
        says="is the same in the native spelling",
    )


def _bytes(template: JSONObject) -> bytes:
    return revision.encode(revision.payload(template))


def _revision(sight: Sight, current: Record) -> JSONObject:
    wanted = sight.as_native or {}
    name = f"{sight.name}-{revision.short_hash(_bytes(wanted).decode(), current.name, length=10)}"
    meta: dict[str, Any] = {"name": name, "namespace": sight.namespace}
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {**meta, "labels": {**current.labels}, "annotations": {**current.annotations}},
        "data": revision.payload(wanted),
        "revision": current.number + 1,
    }


def _taking_over(sight: Sight, native: Side | None, ours: Side) -> Step:
    if not ours.kept or ours.mark is None:
        if native is None:
            raise deleted(sight, Kind.OURS)
        return Wait(what="the one of ours to be gone", hints=COLLECTOR)
    if set(ours.finalizers) != {forms.FINALIZER}:
        left = len(sight.pods_of(ours.uid)) + len(sight.revisions_of(ours.uid))
        return Wait(what="the garbage collector to let go of the pods", left=left, hints=COLLECTOR)
    if late := sight.pods_of(ours.uid):
        return _freed(late[0].name, late[0].uid)
    if native is None:
        body = forms.as_native(ours.document)
        strategy: Any = found(body, "spec", "updateStrategy")
        return Create(
            kind=Kind.NATIVE,
            name=sight.name,
            body=forms.frozen(body, strategy),
            says="created; it updates nothing yet",
        )
    left = len(sight.pods_of("")) + len(sight.revisions_of(""))
    if left or not native.observed:
        return Wait(what="the native controller to take over pods and history", left=left, hints=COLLECTOR)
    if native.mark is not None:
        newest = next(iter(sight.revisions_of(native.uid)), None)
        if newest is None or newest.hash != found(ours.document, "status", "updateRevision"):
            raise CommandError(
                f"the native controller takes the pods of {sight.name} for old ones; it updates nothing as it is",
                hints=(f"back: kubectl kruise-ds migrate {sight.name} -n {sight.namespace}",),
                exit_code=ExitCode.STUCK,
            )
        return _thawed(sight, native)
    return changed(Kind.OURS, ours, sight.name, forms.let_go(ours.document), "is let go")


def _freed(name: str, uid: str) -> Change:
    """The garbage collector had not seen it when it made orphans of the others, and would delete it with ours."""
    drop = patch.remove("metadata", "ownerReferences")
    return Change(
        kind=Kind.POD,
        name=name,
        version="",
        operations=patch.guarded_by_uid(uid, drop),
        says="is let go",
    )


def _thawed(sight: Sight, native: Side) -> Step:
    mark = native.mark
    assert mark is not None
    if not native.observed or native.dying:
        return Wait(what="the native controller to look at it", hints=COLLECTOR)
    old = sight.old_nodes(native)
    held = "; it stays OnDelete, which keeps what is old" if mark.holds(old) else ""
    return changed(Kind.NATIVE, native, sight.name, forms.thaw(native.document, mark, old), f"is in charge{held}")
