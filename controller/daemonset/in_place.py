"""Writes to single pods that run on: updates in place, and what comes before a deletion. Each reads the pod afresh,
so that no cache decides what is written where, and chains its writes: each starts from what the one before returned
(a pod that changed in between is read again)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import assert_never

from msgspec.structs import replace

from controller.api import patch
from controller.api.base import JSONObject
from controller.api.gates import gates_of, opened
from controller.api.meta import Key, Ref, rfc3339
from controller.api.pod_document import PodDocument
from controller.api.wellknown import HASH_LABEL
from controller.kube.client import Client, Written
from controller.kube.errors import Conflict
from controller.kube.kinds import POD_DOCUMENTS, PODS
from controller.planner.actions import (
    CancelDelete,
    ContinueInPlace,
    DrainPod,
    InPlaceAction,
    OpenGates,
    PrepareDelete,
    ResizePod,
    UpdateInPlace,
)
from controller.planner.in_place.patches import continuing, draining, updating
from controller.planner.in_place.resize_patches import counting, is_resized_by_restart, resizing
from controller.planner.preparing import cancelling, marking, preparing
from controller.runtime.clock import Clock

ATTEMPTS = 5
"""Of one write whose pod changes meanwhile, as a kubelet may do it twice a second while a pod starts."""


class InPlaceWrites:
    """The requests of one pass. `wrote` is told of each write that was accepted, also of one that others follow."""

    def __init__(self, client: Client, clock: Clock, wrote: Callable[[Written], None]) -> None:
        self._client, self._clock, self._wrote = client, clock, wrote

    async def carry_out(self, action: InPlaceAction | PrepareDelete | CancelDelete) -> Written:
        """Returns the pod as the last write has left it."""
        match action:
            case UpdateInPlace():
                return await self._update(action)
            case DrainPod():
                return await self._persistently(action.pod, self._drained)
            case ContinueInPlace():
                return await self._go_on(action)
            case ResizePod():
                return await self._resize(action)
            case OpenGates():
                return await self._open(action)
            case PrepareDelete():
                return await self._prepare(action)
            case CancelDelete():
                return await self._persistently(action.pod, partial(self._cancelled, action))
            case _:
                assert_never(action)

    async def _open(self, action: OpenGates) -> Written:
        """On the very version that was decided about: a gate that was closed since stays so. A gate that nobody has
        set yet is looked at again where a new pod changes too fast."""

        async def once(pod: PodDocument) -> Written:
            gates = gates_of(pod.spec.readiness_gates or (), pod.status.conditions)
            missing = tuple(gate for gate in gates if not gate.present)
            return await self._patched(_ref(pod), opened(missing, rfc3339(self._clock())), sub="status")

        try:
            return await self._patched(action.pod, opened(action.gates, rfc3339(self._clock())), sub="status")
        except Conflict:
            if any(gate.present for gate in action.gates):
                raise
            return await self._persistently(action.pod, once)

    async def _update(self, action: UpdateInPlace) -> Written:
        async def once(pod: PodDocument) -> Written:
            has = (pod.metadata.labels or {}).get(HASH_LABEL, "")
            if has == action.revision.hash:
                return _as_read(pod)  # an earlier attempt came through
            if has != action.before:
                raise _overtaken(action.pod, f"it is of revision {has or 'none'} by now")
            operations = updating(pod, action.revision, action.change, self._clock())
            if action.tried:
                await self._client.patch(PODS, action.pod, _guarded(_ref(pod), operations), dry_run=True)
            drained = await self._drained(pod) if action.change.restarts else _as_read(pod)
            return await self._patched(replace(_ref(pod), version=drained.version), operations)

        return await self._persistently(action.pod, once)

    async def _go_on(self, action: ContinueInPlace) -> Written:
        async def once(pod: PodDocument) -> Written:
            return await self._patched(_ref(pod), continuing(pod, action.revision, self._clock()))

        return await self._persistently(action.pod, once)

    async def _resize(self, action: ResizePod) -> Written:
        """Containers keep their places, so the pod's uid is guard enough, whatever its kubelet writes meanwhile.

        A pod that has served since an earlier attempt is not drained for one that is refused as well."""

        async def once(pod: PodDocument) -> Written:
            operations = resizing(pod)
            if not operations:
                return _as_read(pod)  # an earlier attempt came through
            guarded = patch.guarded_by_uid(action.pod.uid, *operations)
            closing = draining(pod, self._clock()) if is_resized_by_restart(pod) else ()
            if closing:
                await self._client.patch(PODS, action.pod, guarded, sub="resize", dry_run=True)
            counted = await self._patched(_ref(pod), counting(pod))
            await self._patched(replace(_ref(pod), version=counted.version), closing, sub="status")
            written = await self._client.patch(PODS, action.pod, guarded, sub="resize")
            self._wrote(written)
            return written

        return await self._persistently(action.pod, once)

    async def _prepare(self, action: PrepareDelete) -> Written:
        """Its traffic goes first: who waits for the state finds it gone."""

        async def once(pod: PodDocument) -> Written:
            now = self._clock()
            operations = preparing(pod, now)
            if action.tried and operations:
                await self._client.patch(PODS, action.pod, _guarded(_ref(pod), operations), dry_run=True)
            marked = await self._patched(_ref(pod), marking(pod, now, mark=action.mark), sub="status")
            return await self._patched(replace(_ref(pod), version=marked.version), operations)

        return await self._persistently(action.pod, once)

    async def _cancelled(self, action: CancelDelete, pod: PodDocument) -> Written:
        """The state last: while it is there, all of this is tried again."""
        opened = await self._patched(_ref(pod), marking(pod, self._clock(), mark=False), sub="status")
        return await self._patched(replace(_ref(pod), version=opened.version), cancelling(pod, action.labels))

    async def _drained(self, pod: PodDocument) -> Written:
        return await self._patched(_ref(pod), draining(pod, self._clock()), sub="status")

    async def _patched(self, ref: Ref, operations: tuple[JSONObject, ...], sub: str = "") -> Written:
        if not operations:
            return Written(name=ref.name, uid=ref.uid, version=ref.version)
        written = await self._client.patch(PODS, ref, _guarded(ref, operations), sub=sub)
        self._wrote(written)
        return written

    async def _persistently(self, ref: Ref, once: Callable[[PodDocument], Awaitable[Written]]) -> Written:
        """Raises Conflict for a pod that is on its way out, is another one by now, or changes all the time."""
        for attempt in range(1, ATTEMPTS + 1):
            pod = await self._client.get(POD_DOCUMENTS, Key(ref.namespace, ref.name))
            if pod is None or pod.metadata.uid != ref.uid or pod.metadata.deletion_timestamp is not None:
                raise _overtaken(ref, "it was deleted meanwhile")
            try:
                return await once(pod)
            except Conflict as error:
                if attempt == ATTEMPTS or isinstance(error, Overtaken):
                    raise
        raise _overtaken(ref, "it changes all the time")


class Overtaken(Conflict):
    """What was decided about does not exist any more; to read it again would not help."""


def _overtaken(ref: Ref, words: str) -> Overtaken:
    return Overtaken("patch", PODS.describe(ref), f"{words}; it is looked at again")


def _guarded(ref: Ref, operations: tuple[JSONObject, ...]) -> patch.JsonPatch:
    return patch.guarded_by_version(ref.version, *operations)


def _ref(pod: PodDocument) -> Ref:
    meta = pod.metadata
    return Ref(namespace=meta.namespace, name=meta.name, uid=meta.uid, version=meta.resource_version)


def _as_read(pod: PodDocument) -> Written:
    return Written(name=pod.metadata.name, uid=pod.metadata.uid, version=pod.metadata.resource_version)
