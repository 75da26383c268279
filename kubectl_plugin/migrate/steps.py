"""The next step of a migration. A write requires the object as observed; otherwise the state is read again.

To native: ours is deleted first, without its pods, because a native DaemonSet creates a pod wherever it owns none. A
finalizer keeps ours readable until the native one has adopted the pods. That one updates nothing until it takes the
revision of the pods for the current one.
To ours: ours is created first, without pods, which proves that its controller runs while everything can be undone.
It takes charge once the native one is deleted without its pods, and ours has adopted them.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from controller.api import revision
from controller.api.objects import JSONObject, Key, Value, as_bytes, value_at
from kubectl_plugin.changes.edit import Draft, Operation
from kubectl_plugin.errors import CommandError, ExitCode, Refused
from kubectl_plugin.migrate import state
from kubectl_plugin.migrate.observed import NEWEST_POD_SECONDS, Kind, MigrationSide, Observed, RevisionRecord
from kubectl_plugin.migrate.state import Mark
from kubectl_plugin.wording import command

ORPHANING: Final = "orphan"
"""The finalizer with which the garbage collector orphans pods."""
KUBELET_DELAY: Final = 30.0
"""Seconds by which a kubelet may be late in ending a pod."""


class CreateObject(Value):
    kind: Kind
    body: JSONObject
    says: str

    @property
    def name(self) -> str:
        return str(value_at(self.body, "metadata", "name"))


class ChangeObject(Value):
    kind: Kind
    name: str
    version: str
    operations: tuple[Operation, ...]
    says: str


class Delete(Value):
    """`orphan`: keeps pods and revisions."""

    kind: Kind
    name: str
    uid: str
    version: str
    orphan: bool
    says: str


class WaitForPods(Value):
    """`left`: number still missing; waiting goes on while it falls. `seconds`: minimum wait while it does not."""

    what: str
    left: int = 0
    hints: tuple[str, ...] = ()
    seconds: float = 0.0


class HandedOver(Value):
    says: str


MigrationStep: TypeAlias = CreateObject | ChangeObject | Delete | WaitForPods | HandedOver


def next_step(observed: Observed, *, native: bool) -> MigrationStep:
    """Raises CommandError if the migration cannot start or go on."""
    return _return_of_managers(observed) or (_to_native(observed) if native else _to_ours(observed))


def _return_of_managers(observed: Observed) -> ChangeObject | None:
    """Restores the field managers of a side already in charge, in either direction."""
    for side in (observed.native, observed.ours):
        if side is not None and not side.terminating and (mark := side.mark) is not None and mark.acting:
            operations = state.give_back_managers(side.document, mark)
            return change_step(side, operations, "has the field managers of the former one")
    return None


def wait_for_native(what: str, left: int = 0) -> WaitForPods:
    return WaitForPods(what=what, left=left, hints=("kube-controller-manager does that: does it run?",))


def wait_for_ours(what: str, left: int = 0) -> WaitForPods:
    return WaitForPods(what=what, left=left, hints=(command("doctor"),))


def wait_for_successors(observed: Observed, side: MigrationSide) -> WaitForPods | None:
    """Waits until deleted pods have ended and been replaced; None if there are none. The other side would create
    successors beside pods that still run, perhaps of the older revision."""
    if ending := observed.ending_of(side.uid):
        names = ", ".join(one.name for one in ending[:3])
        latest = max(one.ends or 0.0 for one in ending)
        pod, how = Key(observed.namespace, ending[0].name), ("--force", "--grace-period=0")
        hints = (command("delete pod", pod, *how, to="where a node is gone for good", program="kubectl"),)
        what = f"{names}{' …' if len(ending) > 3 else ''} to end"
        return WaitForPods(what=what, left=len(ending), hints=hints, seconds=latest - observed.now + KUBELET_DELAY)
    if nodes := observed.unreplaced_nodes(side):
        return WaitForPods(what=f"a new pod on {', '.join(nodes[:3])}", left=len(nodes))
    return None


def wait_for_removal(observed: Observed, side: MigrationSide, *, ours: tuple[str, ...] = ()) -> WaitForPods:
    """Waits for a deleted side to disappear. `ours`: finalizers that the plugin removes."""
    left = observed.count_owned_by(side.uid)
    others = [finalizer for finalizer in side.finalizers if finalizer not in (ORPHANING, *ours)]
    if others and ORPHANING not in side.finalizers:
        hints = (f"it has to be removed from {side.kind}/{side.name} by what set it",)
        return WaitForPods(what=f"the finalizer {', '.join(others)} to go", left=left, hints=hints)
    return wait_for_native("the garbage collector to release the pods", left)


def delete_without_pods(observed: Observed, side: MigrationSide) -> MigrationStep:
    """Waits first until the garbage collector has seen all pods: it deletes those that it has not seen."""
    if (waits := wait_for_successors(observed, side)) is not None:
        return waits
    if observed.age_of_newest_pod(side) < NEWEST_POD_SECONDS:
        hints = ("pods are replaced, or nodes added, all the time: run it again when that has stopped",)
        return WaitForPods(what=f"no new pod for {NEWEST_POD_SECONDS:g} s", hints=hints)
    return delete_of(side, "deleted; its pods keep running", orphan=True)


def delete_of(side: MigrationSide, says: str, *, orphan: bool) -> Delete:
    return Delete(kind=side.kind, name=side.name, uid=side.uid, version=side.version, orphan=orphan, says=says)


def change_step(side: MigrationSide, operations: tuple[Operation, ...], says: str) -> ChangeObject:
    return ChangeObject(kind=side.kind, name=side.name, version=side.version, operations=operations, says=says)


def neither_exists(observed: Observed) -> CommandError:
    whose = f'no DaemonSet "{observed.name}" in namespace "{observed.namespace}"'
    return CommandError(f"{whose}, neither of apps/v1 nor of apps.kruise.io")


def both_exist(observed: Observed) -> CommandError:
    key = Key(observed.namespace, observed.name)
    return Refused(
        f"{key.name} exists both as a native and as an Advanced DaemonSet: nodes may have two pods",
        "deleting one also deletes its pods:",
        command("delete ads", key, to="keep the native one", program="kubectl"),
        command("delete daemonset.apps", key, to="keep the Advanced one", program="kubectl"),
        "then run the command again",
    )


def deleted_by_another(side: MigrationSide) -> CommandError:
    words = f"{side.kind}/{side.name} is being deleted by another client"
    return Refused(words)


def _to_native(observed: Observed) -> MigrationStep:
    """Raises CommandError if the migration cannot start or go on."""
    native, ours = observed.native, observed.ours
    if ours is None:
        if native is None:
            raise neither_exists(observed)
        return (
            HandedOver(says="is a native DaemonSet")
            if native.mark is None
            else _put_in_charge(observed, native, native.mark)
        )
    if ours.terminating:
        return _hand_to_native(observed, native, ours)
    if native is not None:
        return _take_back_ours(observed, native, ours)
    return _retire_ours(observed, ours)


def _take_back_ours(observed: Observed, native: MigrationSide, ours: MigrationSide) -> MigrationStep:
    """Undoes a migration to Advanced: deletes that one if it owns no pod, or waits for the native one to be gone."""
    if ours.mark is None or ours.mark.uid != native.uid:
        raise both_exist(observed)
    if native.terminating:
        return wait_for_removal(observed, native)
    if observed.pods_of(ours.uid):
        raise both_exist(observed)
    return delete_of(ours, "is taken back", orphan=False)


def _retire_ours(observed: Observed, ours: MigrationSide) -> MigrationStep:
    mark = ours.mark
    current = observed.current_revision(ours)
    if mark is not None and (left := observed.count_owned_by("", mark.uid)):
        return wait_for_ours("the kruise-ds controller to adopt pods and revisions", left)
    if not ours.is_observed or current is None:
        return wait_for_ours("the kruise-ds controller to observe it")
    if (twin := _native_revision(observed, ours, current)) is not None:
        return twin
    if not ours.is_kept:
        return change_step(ours, state.stop_updates_of_ours(ours.document), "updates nothing from now on")
    busy = [pod for pod in observed.pods_of(ours.uid) if pod.busy]
    if busy:
        return WaitForPods(what=f"{busy[0].name}: {busy[0].busy}", left=len(busy))
    if (waits := wait_for_successors(observed, ours)) is not None:
        return waits
    if operations := state.stop_creates_of_ours(ours.document):
        return change_step(ours, operations, "creates no more pods")
    if twice := observed.doubled_nodes(ours):
        return WaitForPods(what=f"one pod on {', '.join(twice)}, where there are two", left=len(twice))
    return delete_without_pods(observed, ours)


def _native_revision(observed: Observed, ours: MigrationSide, current: RevisionRecord) -> MigrationStep | None:
    """A second revision for the native controller, which takes only the bytes that it would write itself for current;
    None if not needed. It has the hash of the pods, so that the Advanced side's controller accepts it too."""
    template = observed.as_native or {}
    wanted = _bytes(template)
    if _bytes(current.template) == wanted:
        return None
    if any(
        _bytes(one.template) == wanted and one.hash == current.hash for one in observed.revisions_of("", ours.uid)
    ):
        return wait_for_ours("the kruise-ds controller to adopt the revision")
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
    return CreateObject(kind=Kind.REVISION, body=body, says="is the same in the native spelling")


def _bytes(template: JSONObject) -> bytes:
    return revision.encode(revision.payload(template))


def _hand_to_native(observed: Observed, native: MigrationSide | None, ours: MigrationSide) -> MigrationStep:
    if not ours.is_kept or ours.mark is None:
        if native is None:
            raise deleted_by_another(ours)
        return wait_for_native("the Advanced DaemonSet to disappear")
    if set(ours.finalizers) != {state.FINALIZER}:
        return wait_for_removal(observed, ours, ours=(state.FINALIZER,))
    if late := observed.pods_of(ours.uid):
        return _free_pod(late[0].name, late[0].uid)
    if native is None:
        # A generation that no pod has: those of a former native DaemonSet may have some, counted from 1.
        unused = 1 + max((pod.generation for pod in observed.pods), default=0)
        body = state.as_frozen_native(ours.document, unused)
        return CreateObject(kind=Kind.NATIVE, body=body, says="created; it updates nothing yet")
    left = observed.count_owned_by("")
    if left or not native.is_observed:
        return wait_for_native("the native controller to adopt pods and revisions", left)
    if native.mark is not None:
        newest = next(iter(observed.revisions_of(native.uid)), None)
        if newest is None or newest.hash != value_at(ours.document, "status", "updateRevision"):
            raise CommandError(
                f"the native controller takes the pods of {observed.name} for old ones; it updates nothing as it is",
                command("migrate", Key(observed.namespace, observed.name), to="back"),
                exit_code=ExitCode.STUCK,
            )
        if left := _miscounted(observed, native):
            return wait_for_native("the native controller to tell old pods from new ones", left)
        return _put_in_charge(observed, native, native.mark)
    return change_step(ours, state.remove_finalizer(ours.document), "is released")


def _miscounted(observed: Observed, native: MigrationSide) -> int:
    """Nodes whose pod the native status miscounts as updated or old. It omits nodes that should not have a pod."""
    new, counted = observed.new_nodes(native), native.status_number("updatedNumberScheduled")
    return max(counted - new, new - native.status_number("numberMisscheduled") - counted, 0)


def _free_pod(name: str, uid: str) -> ChangeObject:
    """Orphans a pod that the garbage collector missed, and would delete with its owner."""
    guard = Operation(op="replace", path=("metadata", "uid"), value=uid)
    drop = Operation(op="remove", path=("metadata", "ownerReferences"))
    return ChangeObject(kind=Kind.POD, name=name, version="", operations=(guard, drop), says="is released")


def _put_in_charge(observed: Observed, native: MigrationSide, mark: Mark) -> MigrationStep:
    if not native.is_observed or native.terminating:
        return wait_for_native("the native controller to observe it")
    old = observed.old_nodes(native)
    says = "is in charge"
    if mark.holds(old):
        # the whole strategy: its type alone would mean the default limits
        change = as_bytes({"spec": {"updateStrategy": mark.strategy}}).decode()
        on = f"kubectl patch daemonset.apps {observed.name} -n {observed.namespace} --type=merge -p '{change}'"
        says += f"; it stays OnDelete, which keeps what is old. To go on: {on}"
    return change_step(native, state.put_native_in_charge(native.document, mark, old), says)


def _to_ours(observed: Observed) -> MigrationStep:
    """Raises CommandError if the migration cannot start or go on."""
    native, ours = observed.native, observed.ours
    if ours is not None and ours.terminating:
        return _turn_back(observed, ours)
    if native is None:
        return _hand_to_ours(observed)
    if ours is None:
        if native.terminating:
            raise deleted_by_another(native)
        if left := observed.count_owned_by(""):
            # Both sides would adopt them, and the native one creates a pod wherever it loses one.
            return wait_for_native("the native controller to adopt pods and revisions", left)
        body = state.as_waiting_ours(native.document)
        return CreateObject(kind=Kind.OURS, body=body, says="created; it creates no pods yet")
    if ours.mark is None or ours.mark.uid != native.uid:
        raise both_exist(observed)
    return _side_by_side(observed, native, ours)


def _turn_back(observed: Observed, ours: MigrationSide) -> MigrationStep:
    """Undoes a migration to native once the native one exists, of which the deleted object is the only record."""
    if not ours.is_kept:
        return wait_for_native("the deleted Advanced DaemonSet to disappear")
    if observed.native is None or set(ours.finalizers) != {state.FINALIZER} or observed.pods_of(ours.uid):
        return _to_native(observed)
    return change_step(ours, state.remove_finalizer(ours.document), "is released")


def _side_by_side(observed: Observed, native: MigrationSide, ours: MigrationSide) -> MigrationStep:
    if native.terminating:
        return wait_for_removal(observed, native)
    if edits := _copy_of_spec(native, ours):
        return change_step(ours, edits, "follows the native one")
    if not ours.is_observed:
        return wait_for_ours("the kruise-ds controller to observe it")
    if not state.is_frozen(native.document):
        return change_step(native, state.freeze_native(native.document), "updates nothing from now on")
    current = observed.current_revision(native)
    if not native.is_observed or current is None:
        return wait_for_native("the native controller to observe it")
    if twice := observed.doubled_nodes(native):
        return WaitForPods(what=f"one pod on {', '.join(twice)}, where there are two", left=len(twice))
    if current.number < 2:
        # Our controller has stored a revision 1 itself. Of two that mean the same it keeps the one with the higher
        # number, which must be the revision that the pods have.
        return ChangeObject(
            kind=Kind.REVISION,
            name=current.name,
            version=current.version,
            operations=(Operation(op="replace", path=("revision",), value=2),),
            says="is number 2",
        )
    return delete_without_pods(observed, native)


def _copy_of_spec(native: MigrationSide, ours: MigrationSide) -> tuple[Operation, ...]:
    draft = Draft(ours.document)
    for key in state.SHARED:
        wanted = value_at(native.document, "spec", key)
        if key == "template" and ours.identity == native.identity:
            continue
        if wanted is not None:
            draft.set(wanted, "spec", key)
    if ours.mark is not None:
        state.copy_strategy(draft, ours.mark, native.document)
    return draft.operations


def _hand_to_ours(observed: Observed) -> MigrationStep:
    ours = observed.ours
    if ours is None:
        raise neither_exists(observed)
    mark = ours.mark
    if mark is None:
        if not ours.is_observed:
            return wait_for_ours("the kruise-ds controller to observe it")
        return HandedOver(says="is an Advanced DaemonSet")
    if left := observed.count_owned_by("", mark.uid):
        return wait_for_ours("the kruise-ds controller to adopt pods and revisions", left)
    current = observed.current_revision(ours)
    if not ours.is_observed or current is None or value_at(ours.document, "status", "updateRevision") != current.hash:
        return wait_for_ours("the kruise-ds controller to observe it")
    old = observed.old_nodes(ours)
    held = f"; partition {old} keeps what is old" if mark.holds(old) else ""
    return change_step(ours, state.put_ours_in_charge(ours.document, mark, old), f"is in charge{held}")
