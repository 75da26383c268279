"""The next step from a native DaemonSet to one of ours.

Ours is made first, and so that it makes no pod: its controller shows that it acts while the native one is still in
charge, and until that is deleted everything can be taken back. The native one updates nothing from then on and is
deleted without its pods. When ours has taken over all of them, and their history, it begins to act.
"""

from __future__ import annotations

from controller.api.base import JSONObject
from kubectl_plugin.edits.applying import Draft, found
from kubectl_plugin.edits.migration import forms, to_native
from kubectl_plugin.edits.migration.forms import Mark
from kubectl_plugin.edits.migration.observed import QUIET, Observed, Side
from kubectl_plugin.edits.migration.step import (
    ChangeObject,
    CreateObject,
    Delete,
    HandedOver,
    Kind,
    Step,
    WaitForPods,
    absent,
    both,
    changed,
    deleted,
)

COLLECTOR = ("kube-controller-manager does that: does it run?",)
CONTROLLER = ("kubectl kruise-ds doctor",)


def to_ours(observed: Observed) -> Step:
    """Raises CommandError where there is nothing to start from, or not what it takes."""
    native, ours = observed.native, observed.ours
    if ours is not None and ours.dying:
        return _after_a_deletion(observed, ours)
    if native is None:
        return _taking_over(observed)
    if ours is None:
        if native.dying:
            raise deleted(observed, Kind.NATIVE)
        if left := len(observed.pods_of("")) + len(observed.revisions_of("")):
            # Both would adopt them, and the native one makes a pod where it does not get the one that is there.
            return WaitForPods(what="the native controller to take over pods and history", left=left, hints=COLLECTOR)
        body = forms.waiting(forms.as_ours(native.document), native.uid)
        return CreateObject(kind=Kind.OURS, name=observed.name, body=body, says="created; it makes no pod yet")
    if ours.mark is None or ours.mark.uid != native.uid:
        raise both(observed)
    return _side_by_side(observed, native, ours)


def _after_a_deletion(observed: Observed, ours: Side) -> Step:
    """On its way to a native one it is turned round once that is there: nobody else knows how it is to be."""
    if not ours.kept:
        return WaitForPods(what="the one of ours that was deleted to be gone", hints=COLLECTOR)
    if observed.native is None or set(ours.finalizers) != {forms.FINALIZER} or observed.pods_of(ours.uid):
        return to_native.to_native(observed)
    return changed(Kind.OURS, ours, observed.name, forms.let_go(ours.document), "is let go")


def _side_by_side(observed: Observed, native: Side, ours: Side) -> Step:
    if native.dying:
        left = len(observed.pods_of(native.uid)) + len(observed.revisions_of(native.uid))
        return WaitForPods(what="the garbage collector to let go of the pods", left=left, hints=COLLECTOR)
    if edits := _alignment(native, ours):
        return changed(Kind.OURS, ours, observed.name, edits, "follows the native one")
    if not ours.observed:
        return WaitForPods(what="our controller to look at it", hints=CONTROLLER)
    if native.mark is None:
        return changed(
            Kind.NATIVE, native, observed.name, forms.freeze(native.document), "updates nothing from now on"
        )
    current = observed.current(native)
    if not native.observed or current is None:
        return WaitForPods(what="the native controller to look at it", hints=COLLECTOR)
    if twice := observed.doubled(native):
        return WaitForPods(what=f"one pod on {', '.join(twice)}, where there are two", left=len(twice))
    if current.number < 2:
        # Ours has stored one of number 1 itself. Of two that mean the same it keeps the higher one, which is to be
        # the one that the pods have.
        return ChangeObject(
            kind=Kind.REVISION,
            name=current.name,
            version=current.version,
            operations=({"op": "replace", "path": "/revision", "value": 2},),
            says="is number 2",
        )
    deletion = Delete(
        kind=Kind.NATIVE,
        name=observed.name,
        uid=native.uid,
        version=native.version,
        orphan=True,
        says="deleted, its pods run on",
    )
    if observed.youngest(native) < QUIET:
        return WaitForPods(what=f"no new pod for {QUIET:g} s", otherwise=deletion)
    return deletion


def _alignment(native: Side, ours: Side) -> tuple[JSONObject, ...]:
    draft = Draft(ours.document)
    for key in forms.SHARED:
        wanted = found(native.document, "spec", key)
        if key == "template" and ours.identity == native.identity:
            continue
        if wanted is not None:
            draft.set(wanted, "spec", key)
    return draft.operations


def _taking_over(observed: Observed) -> Step:
    ours = observed.ours
    if ours is None:
        raise absent(observed)
    mark = ours.mark
    if mark is None:
        if not ours.observed:
            return WaitForPods(what="our controller to go on", hints=CONTROLLER)
        return HandedOver(says="is one of ours", changed=False)
    left = len(observed.pods_of("", mark.uid)) + len(observed.revisions_of("", mark.uid))
    if left:
        return WaitForPods(what="our controller to take over pods and history", left=left, hints=CONTROLLER)
    current = observed.current(ours)
    if not ours.observed or current is None or found(ours.document, "status", "updateRevision") != current.hash:
        return WaitForPods(what="our controller to look at it", hints=CONTROLLER)
    return _released(observed, ours, mark)


def _released(observed: Observed, ours: Side, mark: Mark) -> Step:
    old = observed.old_nodes(ours)
    operations = forms.release(ours.document, mark, old)
    held = f"; partition {old} keeps what is old" if mark.holds(old) else ""
    return changed(Kind.OURS, ours, observed.name, operations, f"is in charge{held}")
