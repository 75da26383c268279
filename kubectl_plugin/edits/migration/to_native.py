"""The next step from an Advanced DaemonSet (ours) to a native one.

A native one cannot be told to wait: it creates a pod on each node where it owns none. So ours is deleted first,
without its pods, and a finalizer keeps it readable until the native one has taken over all of them. The native one
updates nothing until it certainly takes the revision of the pods for the current one.
"""

from __future__ import annotations

from controller.api import patch, revision
from controller.api.objects import JSONObject, Key, as_bytes, value_at
from kubectl_plugin.commands import command
from kubectl_plugin.edits.migration import both_kinds, step
from kubectl_plugin.edits.migration.both_kinds import Mark
from kubectl_plugin.edits.migration.observed import Kind, MigrationSide, Observed, RevisionRecord
from kubectl_plugin.failures import CommandError, ExitCode


def to_native(observed: Observed) -> step.MigrationStep:
    """Raises CommandError where the migration cannot start, or cannot go on."""
    native, ours = observed.native, observed.ours
    if ours is None:
        return _without_ours(observed, native)
    if ours.terminating:
        return _hand_to_native(observed, native, ours)
    if native is not None:
        return _take_back_ours(observed, native, ours)
    return _retire_ours(observed, ours)


def _without_ours(observed: Observed, native: MigrationSide | None) -> step.MigrationStep:
    if native is None:
        raise step.neither_exists(observed)
    if native.mark is None:
        return step.HandedOver(says="is a native one")
    return _put_in_charge(observed, native, native.mark)


def _take_back_ours(observed: Observed, native: MigrationSide, ours: MigrationSide) -> step.MigrationStep:
    """Turns back a migration to ours: either ours owns nothing yet and is deleted, or the native one is being deleted
    and the migration to native begins once it is gone."""
    if ours.mark is None or ours.mark.uid != native.uid:
        raise step.both_exist(observed)
    if native.terminating:
        return step.wait_for_removal(observed, native)
    if observed.pods_of(ours.uid):
        raise step.both_exist(observed)
    return step.delete_of(ours, "is taken back", orphan=False)


def _retire_ours(observed: Observed, ours: MigrationSide) -> step.MigrationStep:
    mark = ours.mark
    current = observed.current_revision(ours)
    if mark is not None and (left := observed.count_owned_by("", mark.uid)):
        return step.wait_for_ours("our controller to take over pods and history", left)
    if not ours.is_observed or current is None:
        return step.wait_for_ours("our controller to look at it")
    if (twin := _native_revision(observed, ours, current)) is not None:
        return twin
    if not ours.is_kept:
        return step.change_step(ours, both_kinds.stop_updates_of_ours(ours.document), "updates nothing from now on")
    busy = [one for one in observed.pods_of(ours.uid) if one.busy]
    if busy:
        return step.WaitForPods(what=f"{busy[0].name}: {busy[0].busy}", left=len(busy))
    if (waits := step.wait_for_successors(observed, ours)) is not None:
        return waits
    if operations := both_kinds.stop_creates_of_ours(ours.document):
        return step.change_step(ours, operations, "makes no pod any more")
    if twice := observed.doubled_nodes(ours):
        return step.WaitForPods(what=f"one pod on {', '.join(twice)}, where there are two", left=len(twice))
    return step.delete_without_pods(observed, ours)


def _native_revision(observed: Observed, ours: MigrationSide, current: RevisionRecord) -> step.MigrationStep | None:
    """A second revision for the native controller, which takes a revision for current only if it has the bytes that
    it would write itself. The new one has these, and the hash of the pods; our controller takes it for its own. None:
    not needed."""
    template = observed.as_native or {}
    wanted = _bytes(template)
    if _bytes(current.template) == wanted:
        return None
    if any(
        _bytes(one.template) == wanted and one.hash == current.hash for one in observed.revisions_of("", ours.uid)
    ):
        return step.wait_for_ours("our controller to take over the revision")
    body: JSONObject = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": f"{observed.name}-{revision.short_hash(wanted.decode(), current.name, length=10)}",
            "namespace": observed.namespace,
            "labels": {**current.labels},
            "annotations": {**current.annotations},
        },
        "data": revision.payload(template),
        "revision": current.number + 1,
    }
    return step.CreateObject(kind=Kind.REVISION, body=body, says="is the same in the native spelling")


def _bytes(template: JSONObject) -> bytes:
    return revision.encode(revision.payload(template))


def _hand_to_native(observed: Observed, native: MigrationSide | None, ours: MigrationSide) -> step.MigrationStep:
    if not ours.is_kept or ours.mark is None:
        if native is None:
            raise step.deleted_by_somebody(ours)
        return step.wait_for_native("the Advanced DaemonSet to be gone")
    if set(ours.finalizers) != {both_kinds.FINALIZER}:
        return step.wait_for_removal(observed, ours, ours=(both_kinds.FINALIZER,))
    if late := observed.pods_of(ours.uid):
        return _free_pod(late[0].name, late[0].uid)
    if native is None:
        return step.CreateObject(
            kind=Kind.NATIVE,
            body=both_kinds.as_frozen_native(ours.document, _unused_generation(observed)),
            says="created; it updates nothing yet",
        )
    left = observed.count_owned_by("")
    if left or not native.is_observed:
        return step.wait_for_native("the native controller to take over pods and history", left)
    if native.mark is not None:
        newest = next(iter(observed.revisions_of(native.uid)), None)
        if newest is None or newest.hash != value_at(ours.document, "status", "updateRevision"):
            raise CommandError(
                f"the native controller takes the pods of {observed.name} for old ones; it updates nothing as it is",
                hints=(command("migrate", Key(observed.namespace, observed.name), to="back"),),
                exit_code=ExitCode.STUCK,
            )
        if left := _miscounted(observed, native):
            return step.wait_for_native("the native controller to tell old pods from new ones", left)
        return _put_in_charge(observed, native, native.mark)
    return step.change_step(ours, both_kinds.remove_finalizer(ours.document), "is let go")


def _unused_generation(observed: Observed) -> int:
    """A generation that no pod has. Pods of a former native DaemonSet may have some, counted from 1."""
    return 1 + max((one.generation for one in observed.pods), default=0)


def _miscounted(observed: Observed, native: MigrationSide) -> int:
    """The number of nodes whose pod the native controller counts as updated although it is old, or the other way
    round. Its status leaves out nodes that should not have a pod."""
    new, counted = observed.new_nodes(native), native.status_number("updatedNumberScheduled")
    return max(counted - new, new - native.status_number("numberMisscheduled") - counted, 0)


def _free_pod(name: str, uid: str) -> step.ChangeObject:
    """Removes the owner from a pod that the garbage collector missed, and would delete along with ours."""
    drop = patch.remove("metadata", "ownerReferences")
    return step.ChangeObject(
        kind=Kind.POD,
        name=name,
        version="",
        operations=patch.guarded_by_uid(uid, drop),
        says="is let go",
    )


def _put_in_charge(observed: Observed, native: MigrationSide, mark: Mark) -> step.MigrationStep:
    if not native.is_observed or native.terminating:
        return step.wait_for_native("the native controller to look at it")
    old = observed.old_nodes(native)
    says = "is in charge"
    if mark.holds(old):
        # the whole strategy: its type alone would mean the default limits
        change = as_bytes({"spec": {"updateStrategy": mark.strategy}}).decode()
        on = f"kubectl patch daemonset.apps {observed.name} -n {observed.namespace} --type=merge -p '{change}'"
        says += f"; it stays OnDelete, which keeps what is old. To go on: {on}"
    return step.change_step(native, both_kinds.put_native_in_charge(native.document, mark, old), says)
