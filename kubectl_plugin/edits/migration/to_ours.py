"""The next step from a native DaemonSet to an Advanced one (ours).

Ours is created first, with settings under which it creates no pod. So our controller proves that it runs while the
native one is still in charge, and until the native one is deleted everything can be undone. Then the native one is
made to stop its updates, and is deleted without its pods. Once ours has adopted all pods and revisions, it takes
charge.
"""

from __future__ import annotations

from controller.api.objects import JSONObject, value_at
from kubectl_plugin.edits.draft import Draft
from kubectl_plugin.edits.migration import both_kinds, step, to_native
from kubectl_plugin.edits.migration.observed import Kind, MigrationSide, Observed


def to_ours(observed: Observed) -> step.MigrationStep:
    """Raises CommandError where the migration cannot start, or cannot go on."""
    native, ours = observed.native, observed.ours
    if ours is not None and ours.terminating:
        return _turn_back(observed, ours)
    if native is None:
        return _hand_to_ours(observed)
    if ours is None:
        if native.terminating:
            raise step.deleted_by_somebody(native)
        if left := observed.count_owned_by(""):
            # Both sides would adopt them, and the native one creates a pod wherever it loses one.
            return step.wait_for_native("the native controller to take over pods and history", left)
        body = both_kinds.as_waiting_ours(native.document)
        return step.CreateObject(kind=Kind.OURS, body=body, says="created; it makes no pod yet")
    if ours.mark is None or ours.mark.uid != native.uid:
        raise step.both_exist(observed)
    return _side_by_side(observed, native, ours)


def _turn_back(observed: Observed, ours: MigrationSide) -> step.MigrationStep:
    """Turns back a migration to native. It must first go on until the native one exists: the finalizer's object is
    the only record of what that is to be."""
    if not ours.is_kept:
        return step.wait_for_native("the one of ours that was deleted to be gone")
    if observed.native is None or set(ours.finalizers) != {both_kinds.FINALIZER} or observed.pods_of(ours.uid):
        return to_native.to_native(observed)
    return step.change_step(ours, both_kinds.remove_finalizer(ours.document), "is let go")


def _side_by_side(observed: Observed, native: MigrationSide, ours: MigrationSide) -> step.MigrationStep:
    if native.terminating:
        return step.wait_for_removal(observed, native)
    if edits := _copy_of_spec(native, ours):
        return step.change_step(ours, edits, "follows the native one")
    if not ours.is_observed:
        return step.wait_for_ours("our controller to look at it")
    if not both_kinds.is_frozen(native.document):
        return step.change_step(native, both_kinds.freeze_native(native.document), "updates nothing from now on")
    current = observed.current_revision(native)
    if not native.is_observed or current is None:
        return step.wait_for_native("the native controller to look at it")
    if twice := observed.doubled_nodes(native):
        return step.WaitForPods(what=f"one pod on {', '.join(twice)}, where there are two", left=len(twice))
    if current.number < 2:
        # Our controller has stored a revision 1 itself. Of two that mean the same it keeps the one with the higher
        # number, which must be the revision that the pods have.
        return step.ChangeObject(
            kind=Kind.REVISION,
            name=current.name,
            version=current.version,
            operations=({"op": "replace", "path": "/revision", "value": 2},),
            says="is number 2",
        )
    return step.delete_without_pods(observed, native)


def _copy_of_spec(native: MigrationSide, ours: MigrationSide) -> tuple[JSONObject, ...]:
    draft = Draft(ours.document)
    for key in both_kinds.SHARED:
        wanted = value_at(native.document, "spec", key)
        if key == "template" and ours.identity == native.identity:
            continue
        if wanted is not None:
            draft.set(wanted, "spec", key)
    if ours.mark is not None:
        both_kinds.copy_strategy(draft, ours.mark, native.document)
    return draft.operations


def _hand_to_ours(observed: Observed) -> step.MigrationStep:
    ours = observed.ours
    if ours is None:
        raise step.neither_exists(observed)
    mark = ours.mark
    if mark is None:
        if not ours.is_observed:
            return step.wait_for_ours("our controller to go on")
        return step.HandedOver(says="is one of ours")
    if left := observed.count_owned_by("", mark.uid):
        return step.wait_for_ours("our controller to take over pods and history", left)
    current = observed.current_revision(ours)
    if not ours.is_observed or current is None or value_at(ours.document, "status", "updateRevision") != current.hash:
        return step.wait_for_ours("our controller to look at it")
    old = observed.old_nodes(ours)
    held = f"; partition {old} keeps what is old" if mark.holds(old) else ""
    return step.change_step(ours, both_kinds.put_ours_in_charge(ours.document, mark, old), f"is in charge{held}")
