"""Writes to running pods: updates in place, and the steps before a deletion. Each reads the pod first, so that a
stale cache cannot decide what is written, and again if it changes meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import assert_never

from msgspec.structs import replace

from controller.api import patch
from controller.api.names import HASH_LABEL
from controller.api.objects import JSONObject, Key, Ref, rfc3339
from controller.api.pod import ManagedPodView, PodView
from controller.api.readiness_gates import gates_of, opened
from controller.inplace import admission, patches
from controller.inplace.change import InPlaceChange
from controller.kube.client import Client, Written
from controller.kube.errors import Conflict, Forbidden, Invalid, MutatedByWebhook, NotFound
from controller.kube.requests import POD_VIEWS, PODS
from controller.planner import actions
from controller.runtime.clock import Clock

ATTEMPTS = 5
"""Attempts of a write whose pod changes meanwhile; a kubelet may write twice a second while a pod starts."""


class InPlaceWrites:
    """`wrote` is called for each accepted request; `owns` tests labels against the selector."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        wrote: Callable[[Written], None],
        owns: Callable[[Mapping[str, str]], bool],
    ) -> None:
        self._client, self._clock, self._wrote, self._owns = client, clock, wrote, owns

    async def carry_out(self, action: actions.InPlaceAction | actions.PrepareDelete | actions.CancelDelete) -> None:
        """Carries out one action. Raises Conflict for a pod that is terminating, was replaced, or keeps changing."""
        if isinstance(action, actions.OpenGates) and await self._is_opened(action):
            return
        ref = action.pod
        for attempt in range(1, ATTEMPTS + 1):
            pod = await self._client.get(POD_VIEWS, Key(ref.namespace, ref.name))
            if pod is None or pod.metadata.uid != ref.uid or pod.metadata.deletion_timestamp is not None:
                raise _changed(ref, "it was deleted meanwhile")
            try:
                await self._write(action, pod)
            except Conflict as error:
                if attempt == ATTEMPTS or isinstance(error, PodChanged):
                    raise
            else:
                return

    async def _write(
        self, action: actions.InPlaceAction | actions.PrepareDelete | actions.CancelDelete, pod: ManagedPodView
    ) -> None:
        ref = _ref(pod)
        match action:
            case actions.UpdateInPlace():
                await self._update(action, pod)
            case actions.DrainPod():
                await self._patched(ref, patches.draining(pod, self._clock()), sub="status")
            case actions.ContinueInPlace():
                await self._patched(ref, patches.continuing(pod, action.revision, self._clock()), of=pod)
            case actions.ResizePod():
                await self._resize(pod)
            case actions.OpenGates():
                gates = gates_of(pod.spec.readiness_gates or (), pod.status.conditions or ())
                missing = tuple(gate for gate in gates if not gate.present)
                await self._patched(ref, opened(missing, rfc3339(self._clock())), sub="status")
            case actions.PrepareDelete():
                await self._prepare(action, pod)
            case actions.CancelDelete():
                # the state goes last, because a pass repeats both while it is there
                ref = await self._patched(ref, patches.marking(pod, self._clock(), mark=False), sub="status")
                await self._patched(ref, patches.cancelling(pod, action.labels), of=pod)
            case _:
                assert_never(action)

    async def _is_opened(self, action: actions.OpenGates) -> bool:
        """Opens the gates of the pod at the version that the pass saw, so that a gate closed since then stays closed.
        Returns False if that version is outdated and none of the gates was set, so that a later one may be
        patched."""
        try:
            await self._patched(action.pod, opened(action.gates, rfc3339(self._clock())), sub="status")
        except Conflict:
            if any(gate.present for gate in action.gates):
                raise
            return False
        return True

    async def _update(self, action: actions.UpdateInPlace, pod: ManagedPodView) -> None:
        has = (pod.metadata.labels or {}).get(HASH_LABEL, "")
        if has == action.revision.hash:
            return  # an earlier attempt succeeded
        if has != action.before:
            raise _changed(action.pod, f"it is of revision {has or 'none'} by now")
        if not self._owns(pod.metadata.labels or {}):
            raise _changed(action.pod, "spec.selector does not match it any more")
        ref, change, now = _ref(pod), action.change, self._clock()
        found = admission.by_admission(pod, change, action.mutated_images)
        if found.missing:
            raise UndoesAdmission("patch", PODS.describe(ref), admission.CONTAINER_MISSING)
        if action.tried or found.images:
            operations = _guarded(ref, admission.updating_all_images(pod, action.revision, change, now))
            shown = await self._shown(ref, operations, mapped=bool(found.images))
            if shown is not None and (why := admission.image_undone(found, change, shown)):
                raise UndoesAdmission("patch", PODS.describe(ref), why)
        if found.amounts:
            change = await self._as_admitted(pod, change, found)
        if change.restarts:
            ref = await self._patched(ref, patches.draining(pod, self._clock()), sub="status")
        await self._patched(ref, patches.updating(pod, action.revision, change, now), of=pod)

    async def _as_admitted(
        self, pod: ManagedPodView, change: InPlaceChange, found: admission.ByAdmission
    ) -> InPlaceChange:
        """The change with the amounts that admission sets. Other refusals of the resize are found by the resize
        itself."""
        ref = _ref(pod)
        guarded = patch.guarded_by_uid(ref.uid, *patches.resize_operations(pod, change.resources))
        try:
            shown = await self._shown(ref, guarded, sub="resize")
        except (Forbidden, NotFound):
            return change
        if shown is not None and (why := admission.amount_undone(found, change, shown)):
            raise UndoesAdmission("patch", PODS.describe(ref), why)
        return change if shown is None else admission.as_admitted(change, shown)

    async def _shown(
        self, ref: Ref, operations: patch.JsonPatch, *, sub: str = "", mapped: bool = True
    ) -> ManagedPodView | None:
        """The pod after a dry run. Raises UndoesAdmission if admission changes it (`mapped`) and the server then
        refuses it, or a webhook does not support dry runs."""
        try:
            return await self._client.preview(POD_VIEWS, ref, operations, sub=sub)
        except (Forbidden, Invalid) as error:
            if not mapped or (sub and isinstance(error, Forbidden)):
                raise
            raise UndoesAdmission("patch", PODS.describe(ref), admission.UPDATE_REFUSED) from error

    async def _resize(self, pod: PodView) -> None:
        """Resizes the containers. The order of containers never changes, so the uid is guard enough. A dry run comes
        first: a refused attempt must not drain a pod that serves."""
        ref, operations = _ref(pod), patches.resizing(pod)
        if not operations:
            return  # an earlier attempt succeeded
        guarded = patch.guarded_by_uid(ref.uid, *operations)
        closing = patches.draining(pod, self._clock()) if patches.is_resized_by_restart(pod) else ()
        if closing:
            await self._client.patch(PODS, ref, guarded, sub="resize", dry_run=True)
        ref = await self._patched(ref, patches.updating_generation(pod), of=pod)
        await self._patched(ref, closing, sub="status")
        self._wrote(await self._client.patch(PODS, ref, guarded, sub="resize"))

    async def _prepare(self, action: actions.PrepareDelete, pod: PodView) -> None:
        """Prepares the deletion. The readiness gate closes first, so that the pod gets no traffic in that state."""
        ref, now = _ref(pod), self._clock()
        operations = patches.preparing(pod, now)
        if action.tried and operations:
            await self._client.patch(PODS, ref, _guarded(ref, operations), dry_run=True)
        ref = await self._patched(ref, patches.marking(pod, now, mark=action.mark), sub="status")
        await self._patched(ref, operations, of=pod)

    async def _patched(
        self, ref: Ref, operations: tuple[JSONObject, ...], sub: str = "", *, of: PodView | None = None
    ) -> Ref:
        """Patches the pod unless `operations` is empty; returns it at its new version. Raises MutatedByWebhook if the
        selector matched its labels as read (`of`) but not those in the answer."""
        if not operations:
            return ref
        written = await self._client.patch(PODS, ref, _guarded(ref, operations), sub=sub)
        self._wrote(written)
        if of is not None and self._owns(of.metadata.labels or {}) and not self._owns(written.labels or {}):
            raise labels_mutated("patch", ref)
        return replace(ref, version=written.version)


class PodChanged(Conflict):
    """The pod is not as the pass saw it: the next pass has to decide."""


class UndoesAdmission(PodChanged):
    """An in-place update would undo what admission did to the pod at its creation, so the pod is recreated."""


def labels_mutated(verb: str, stray: Ref) -> MutatedByWebhook:
    words = "a webhook changes its labels, so that spec.selector does not match them"
    return MutatedByWebhook(verb, PODS.describe(stray), words, stray=stray.uid)


def _changed(ref: Ref, words: str) -> PodChanged:
    return PodChanged("patch", PODS.describe(ref), f"{words}; the next pass looks at it again")


def _guarded(ref: Ref, operations: tuple[JSONObject, ...]) -> patch.JsonPatch:
    return patch.guarded_by_version(ref.version, *operations)


def _ref(pod: PodView) -> Ref:
    meta = pod.metadata
    return Ref(namespace=meta.namespace, name=meta.name, uid=meta.uid, version=meta.resource_version)
