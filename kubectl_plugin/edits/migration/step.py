"""The steps of a migration. Each write requires the object to be as it was observed; if it is not, the state is read
again and the next step is decided anew."""

from __future__ import annotations

from typing import Final, TypeAlias

from controller.api.objects import JSONObject, Key, Value, value_at
from kubectl_plugin.commands import command
from kubectl_plugin.edits.migration.observed import QUIET, Kind, MigrationSide, Observed
from kubectl_plugin.failures import CommandError, ExitCode


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
    operations: tuple[JSONObject, ...]
    says: str


class Delete(Value):
    """`orphan`: its pods and revisions are not deleted with it."""

    kind: Kind
    name: str
    uid: str
    version: str
    orphan: bool
    says: str


class WaitForPods(Value):
    """Wait until somebody else has acted. `left`: how many are still missing; while that number falls, waiting goes
    on. `seconds`: how long to wait at least while it does not."""

    what: str
    left: int = 0
    hints: tuple[str, ...] = ()
    seconds: float = 0.0


class HandedOver(Value):
    says: str


ORPHANING: Final = "orphan"
"""The finalizer with which the garbage collector removes the owner from its pods."""
GRACE: Final = 30.0
"""Seconds by which a kubelet may be late in ending a pod."""

MigrationStep: TypeAlias = CreateObject | ChangeObject | Delete | WaitForPods | HandedOver


def wait_for_native(what: str, left: int = 0) -> WaitForPods:
    return WaitForPods(what=what, left=left, hints=("kube-controller-manager does that: does it run?",))


def wait_for_ours(what: str, left: int = 0) -> WaitForPods:
    return WaitForPods(what=what, left=left, hints=(command("doctor"),))


def wait_for_successors(observed: Observed, side: MigrationSide) -> WaitForPods | None:
    """Wait until deleted pods of this side have ended and have successors; None if there are none.

    Otherwise the other side would create the successors: beside a pod that still runs, perhaps of the older revision.
    """
    if ending := observed.ending_of(side.uid):
        names = ", ".join(one.name for one in ending[:3])
        latest = max(one.ends or 0.0 for one in ending)
        pod, how = Key(observed.namespace, ending[0].name), ("--force", "--grace-period=0")
        hints = (command("delete pod", pod, *how, to="where a node is gone for good", program="kubectl"),)
        what = f"{names}{' …' if len(ending) > 3 else ''} to end"
        return WaitForPods(what=what, left=len(ending), hints=hints, seconds=latest - observed.now + GRACE)
    if nodes := observed.unreplaced_nodes(side):
        return WaitForPods(what=f"a new pod on {', '.join(nodes[:3])}", left=len(nodes))
    return None


def wait_for_removal(observed: Observed, side: MigrationSide, *, ours: tuple[str, ...] = ()) -> WaitForPods:
    """Wait for a deleted side to disappear, once all finalizers on it are removed. `ours`: finalizers that the plugin
    removes."""
    left = observed.count_owned_by(side.uid)
    others = [one for one in side.finalizers if one not in (ORPHANING, *ours)]
    if others and ORPHANING not in side.finalizers:
        hints = (f"whoever has set it on {side.kind}/{side.name} has to take it away",)
        return WaitForPods(what=f"the finalizer {', '.join(others)} to go", left=left, hints=hints)
    return wait_for_native("the garbage collector to let go of the pods", left)


def delete_without_pods(observed: Observed, side: MigrationSide) -> MigrationStep:
    """Delete this side but not its pods. Only once the garbage collector has seen all of them: it deletes those that
    it has not seen."""
    if (waits := wait_for_successors(observed, side)) is not None:
        return waits
    if observed.age_of_newest_pod(side) < QUIET:
        hints = ("pods are replaced, or nodes added, all the time: run it again when that has stopped",)
        return WaitForPods(what=f"no new pod for {QUIET:g} s", hints=hints)
    return delete_of(side, "deleted, its pods run on", orphan=True)


def delete_of(side: MigrationSide, says: str, *, orphan: bool) -> Delete:
    return Delete(kind=side.kind, name=side.name, uid=side.uid, version=side.version, orphan=orphan, says=says)


def change_step(side: MigrationSide, operations: tuple[JSONObject, ...], says: str) -> ChangeObject:
    return ChangeObject(kind=side.kind, name=side.name, version=side.version, operations=operations, says=says)


def neither_exists(observed: Observed) -> CommandError:
    whose = f'no DaemonSet "{observed.name}" in namespace "{observed.namespace}"'
    return CommandError(f"{whose}, neither of apps/v1 nor of apps.kruise.io")


def both_exist(observed: Observed) -> CommandError:
    key = Key(observed.namespace, observed.name)
    return CommandError(
        f"{key.name} is there twice, as a native DaemonSet and as one of ours: nodes may have two pods",
        hints=(
            "deleting one also deletes its pods:",
            command("delete ads", key, to="keep the native one", program="kubectl"),
            command("delete daemonset.apps", key, to="keep ours", program="kubectl"),
            "then run the command again",
        ),
        exit_code=ExitCode.REFUSED,
    )


def deleted_by_somebody(side: MigrationSide) -> CommandError:
    words = f"{side.kind}/{side.name} is being deleted by somebody else"
    return CommandError(words, exit_code=ExitCode.REFUSED)
