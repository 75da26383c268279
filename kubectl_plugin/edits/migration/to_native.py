"""The next step from an Advanced DaemonSet (ours) to a native one.

A native one cannot be told to wait: it creates a pod on each node where it owns none. So ours is deleted first,
without its pods, and a finalizer keeps it readable until the native one has taken over all of them. The native one
updates nothing until it certainly takes the revision of the pods for the current one.
"""

from __future__ import annotations

from controller.api import patch, revision
from controller.api.base import JSONObject, as_bytes
from kubectl_plugin.edits.applying import found
from kubectl_plugin.edits.migration import forms, step
from kubectl_plugin.edits.migration.forms import Mark
from kubectl_plugin.edits.migration.observed import Kind, MigrationSide, Observed, RevisionRecord
from kubectl_plugin.failures import CommandError, ExitCode


def to_native(observed: Observed) -> step.MigrationStep:
    """Raises CommandError where the migration cannot start, or cannot go on."""
    native, ours = observed.native, observed.ours
    if ours is None:
        return _alone(observed, native)
    if ours.dying:
        return _taking_over(observed, native, ours)
    if native is not None:
        return _back(observed, native, ours)
    return _leaving(observed, ours)


def _alone(observed: Observed, native: MigrationSide | None) -> step.MigrationStep:
    if native is None:
        raise step.absent(observed)
    if native.mark is None:
        return step.HandedOver(says="is a native one")
    return _thawed(observed, native, native.mark)


def _back(observed: Observed, native: MigrationSide, ours: MigrationSide) -> step.MigrationStep:
    """Turns back a migration to ours: either ours owns nothing yet and is deleted, or the native one is being deleted
    and the migration to native begins once it is gone."""
    if ours.mark is None or ours.mark.uid != native.uid:
        raise step.both(observed)
    if native.dying:
        return step.released(observed, native)
    if observed.pods_of(ours.uid):
        raise step.both(observed)
    return step.deleting(ours, "is taken back", orphan=False)


def _leaving(observed: Observed, ours: MigrationSide) -> step.MigrationStep:
    mark = ours.mark
    current = observed.current(ours)
    if mark is not None and (left := observed.owned_by("", mark.uid)):
        return step.wait_for_ours("our controller to take over pods and history", left)
    if not ours.observed or current is None:
        return step.wait_for_ours("our controller to look at it")
    if (twin := _twin(observed, ours, current)) is not None:
        return twin
    if not ours.kept:
        return step.changing(ours, forms.leaving(ours.document), "updates nothing from now on")
    busy = [one for one in observed.pods_of(ours.uid) if one.busy]
    if busy:
        return step.WaitForPods(what=f"{busy[0].name}: {busy[0].busy}", left=len(busy))
    if (waits := step.replaced(observed, ours)) is not None:
        return waits
    if operations := forms.still(ours.document):
        return step.changing(ours, operations, "makes no pod any more")
    if twice := observed.doubled(ours):
        return step.WaitForPods(what=f"one pod on {', '.join(twice)}, where there are two", left=len(twice))
    return step.orphaning(observed, ours)


def _twin(observed: Observed, ours: MigrationSide, current: RevisionRecord) -> step.MigrationStep | None:
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


def _taking_over(observed: Observed, native: MigrationSide | None, ours: MigrationSide) -> step.MigrationStep:
    if not ours.kept or ours.mark is None:
        if native is None:
            raise step.deleted(ours)
        return step.wait_for_native("the one of ours to be gone")
    if set(ours.finalizers) != {forms.FINALIZER}:
        return step.released(observed, ours, ours=(forms.FINALIZER,))
    if late := observed.pods_of(ours.uid):
        return _freed(late[0].name, late[0].uid)
    if native is None:
        return step.CreateObject(
            kind=Kind.NATIVE,
            body=forms.frozen(ours.document, _generation(observed)),
            says="created; it updates nothing yet",
        )
    left = observed.owned_by("")
    if left or not native.observed:
        return step.wait_for_native("the native controller to take over pods and history", left)
    if native.mark is not None:
        newest = next(iter(observed.revisions_of(native.uid)), None)
        if newest is None or newest.hash != found(ours.document, "status", "updateRevision"):
            raise CommandError(
                f"the native controller takes the pods of {observed.name} for old ones; it updates nothing as it is",
                hints=(f"back: kubectl kruise-ds migrate {observed.name} -n {observed.namespace}",),
                exit_code=ExitCode.STUCK,
            )
        if left := _miscounted(observed, native):
            return step.wait_for_native("the native controller to tell old pods from new ones", left)
        return _thawed(observed, native, native.mark)
    return step.changing(ours, forms.let_go(ours.document), "is let go")


def _generation(observed: Observed) -> int:
    """A generation that no pod has. Pods of a former native DaemonSet may have some, counted from 1."""
    return 1 + max((one.generation for one in observed.pods), default=0)


def _miscounted(observed: Observed, native: MigrationSide) -> int:
    """How many nodes' pods the native controller takes for new when they are old, or the other way round. Its status
    leaves out nodes that should not have a pod."""
    new, counted = observed.new_nodes(native), native.counted("updatedNumberScheduled")
    return max(counted - new, new - native.counted("numberMisscheduled") - counted, 0)


def _freed(name: str, uid: str) -> step.ChangeObject:
    """Removes the owner from a pod that the garbage collector missed, and would delete along with ours."""
    drop = patch.remove("metadata", "ownerReferences")
    return step.ChangeObject(
        kind=Kind.POD,
        name=name,
        version="",
        operations=patch.guarded_by_uid(uid, drop),
        says="is let go",
    )


def _thawed(observed: Observed, native: MigrationSide, mark: Mark) -> step.MigrationStep:
    if not native.observed or native.dying:
        return step.wait_for_native("the native controller to look at it")
    old = observed.old_nodes(native)
    says = "is in charge"
    if mark.holds(old):
        # the whole strategy: its type alone would mean the default limits
        change = as_bytes({"spec": {"updateStrategy": mark.strategy}}).decode()
        on = f"kubectl patch daemonset.apps {observed.name} -n {observed.namespace} --type=merge -p '{change}'"
        says += f"; it stays OnDelete, which keeps what is old. To go on: {on}"
    return step.changing(native, forms.thaw(native.document, mark, old), says)
