"""Carries out a plan: slow start for creates, everything else concurrently, one result per action. A failure on one
pod does not stop the others, except that a create with an error stops the later batches."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Generic, TypeVar, assert_never

from msgspec.structs import replace

from controller.api import patch, revision
from controller.api.daemonset import DaemonSet
from controller.api.names import HASH_LABEL, NEVER_RAN_ANNOTATION
from controller.api.objects import JSONObject, Key, NamespacedObject, Ref
from controller.kube.client import Written
from controller.kube.errors import ApiError, Conflict, MutatedByWebhook, NotFound, WriteVerdict, classify, is_gone
from controller.kube.requests import DAEMONSETS, PODS, REVISIONS, Resource, Wire
from controller.kube.sender import CEILING
from controller.planner import actions
from controller.planner.plan import Plan
from controller.planner.pod_template import owner_reference
from controller.reconcile.caches import Compiled
from controller.reconcile.dependencies import Dependencies
from controller.reconcile.events import event_of
from controller.reconcile.in_place_writes import InPlaceWrites, labels_mutated
from controller.reconcile.state import DaemonSetState
from controller.reconcile.write_outcomes import (
    WRITE_OUTCOMES,
    ActionResult,
    RetryDecision,
    may_be_done,
    message_of,
    retry_decision,
)
from controller.runtime.clock import elapsed
from controller.runtime.workers import AnswerTimer, Requeue

A = TypeVar("A")
R = TypeVar("R")
W = TypeVar("W", bound=Wire)
N = TypeVar("N", bound=NamespacedObject)


class Execution(ABC, Generic[A, R]):
    """The write path of a pass, over a DaemonSet or an ImagePullJob: carries out actions (A) side by side, and learns
    the result (R) of each as it comes. While answers are late, the next pass runs already."""

    def __init__(self, requeue: Requeue) -> None:
        self.results: list[R] = []
        self._requeue = requeue
        self._timer = AnswerTimer(self._late)

    async def _run(self, batches: Iterable[Sequence[A]]) -> bool:
        """Tries every action, batch after batch. Returns whether all answers came in time. At most `CEILING` actions
        run at once, as many as may wait at the server, which bounds memory."""
        with self._timer:
            for batch in batches:
                waiting = iter(batch)
                if len(batch) == 1:
                    await self._carry_out(waiting)
                    continue
                async with asyncio.TaskGroup() as side_by_side:
                    for _ in range(min(len(batch), CEILING)):
                        side_by_side.create_task(self._carry_out(waiting))
        return not self._timer.is_late

    async def _carry_out(self, waiting: Iterator[A]) -> None:
        for action in waiting:
            if not self._begins_more:
                return
            with self._under_way(action):
                error: ApiError | None = None
                try:
                    await self._send(action)
                except ApiError as raised:
                    error = raised
                result = await self._result(action, error)
            self.results.append(result)
            self._learn(result)
            self._timer.came()
            await self._carry_out(self._following(result))

    def _late(self, reason: str) -> None:
        """The server is silent, or answers at last."""
        self._requeue(reason)

    @property
    def _begins_more(self) -> bool:
        return True

    def _following(self, result: R) -> Iterator[A]:
        """The actions that a result leads to in the same pass."""
        return iter(())

    @abstractmethod
    def _under_way(self, action: A) -> AbstractContextManager[None]:
        """Counts the outcome of an action as unknown inside the block."""

    @abstractmethod
    async def _send(self, action: A) -> None:
        """Makes the requests of an action. Raises ApiError."""

    @abstractmethod
    async def _result(self, action: A, error: ApiError | None) -> R: ...

    @abstractmethod
    def _learn(self, result: R) -> None: ...


class PlanExecution(Execution[actions.Action, ActionResult]):
    """Carries out the plan of one pass over a DaemonSet, once."""

    def __init__(
        self,
        decided: Plan,
        daemonset: DaemonSet,
        state: DaemonSetState,
        dependencies: Dependencies,
        requeue: Requeue,
    ) -> None:
        super().__init__(requeue)
        self._decided, self._daemonset, self._state, self._dependencies = decided, daemonset, state, dependencies
        self._requests = Requests(daemonset, state.compiled_for(daemonset), dependencies)
        self._is_stopped = self._is_quota_full = False
        self._owner_read: asyncio.Future[ApiError | None] | None = None
        """The error that forbids adoptions, if any: the result of one read before all of them."""

    async def run(self) -> bool:
        """Tries every action, and returns whether all answers came in time. Once they are late, it starts no further
        action, because the plan is getting old, and returns when those that were begun are answered."""
        if in_time := await self._run(self._batches()):
            self._state.update_write_failure(self._decided, self.results)
        return in_time

    def _late(self, reason: str) -> None:
        if not self._is_stopped:
            self._is_stopped = True
            self._state.update_write_failure(self._decided, self.results)
        super()._late(reason)

    @property
    def _is_over(self) -> bool:
        """Whether the DaemonSet was found to be deleted or replaced."""
        read = self._owner_read
        error = read.result() if read is not None and read.done() else None
        return error is not None and is_gone(error)

    @property
    def _begins_more(self) -> bool:
        return not (self._is_stopped or self._is_over)

    def _batches(self) -> Iterator[Sequence[actions.Action]]:
        """Concurrent batches: everything but creates; 1, 2, 4 … creates until a batch has an error; creates on nodes
        where one had failed, which say nothing about others. Once pods of the revision have been accepted, all
        creates are one batch, because the slow start serves to find a refused template cheaply."""
        state = self._state
        yield [action for action in self._decided.actions if not isinstance(action, actions.CreatePod)]
        creates = [action for action in self._decided.actions if isinstance(action, actions.CreatePod)]
        again = [action for action in creates if action.backoff_key in state.write_backoff.failing]
        first = [action for action in creates if action not in again] if again else creates
        size = len(first) if first and first[0].revision.hash == state.past_slow_start else 1
        done, before = 0, len(self.results)
        while done < len(first):
            came = len(self.results)
            yield first[done : done + size]
            done, size = done + size, size * 2
            if any(result.retry_error is not None for result in self.results[came:]):
                break
        tried = self.results[before:]
        if len(tried) > 1 and not self._is_stopped and all(result.error is not None for result in tried):
            state.accepted = 0
        yield again

    def _under_way(self, action: actions.Action) -> AbstractContextManager[None]:
        return self._state.under_way(action)

    async def _send(self, action: actions.Action) -> None:
        if isinstance(action, actions.AdoptPod | actions.AdoptRevision):
            await self._may_adopt()
        await self._requests.send(action)

    def _learn(self, result: ActionResult) -> None:
        self._state.learn(result, self._daemonset, elapsed(), known_full=self._is_quota_full)
        self._is_quota_full |= result.is_full_quota
        if self._timer.is_late and result.retry_error is not None:
            self._state.update_write_failure(Plan(), (result,))

    def _following(self, result: ActionResult) -> Iterator[actions.Action]:
        action = result.action
        if isinstance(action, actions.UpdateInPlace) and action.change.resources and result.error is None:
            # right after the new image, so that one restart of the container covers both
            yield actions.ResizePod(pod=action.pod, node=action.node)

    async def _result(self, action: actions.Action, error: ApiError | None) -> ActionResult:
        return self._after_success(action) if error is None else await self._after_error(action, error)

    async def _after_error(self, action: actions.Action, error: ApiError) -> ActionResult:
        """Records an event or asks the server, as `retry_decision` requires."""
        verdict = classify(error).write
        self._dependencies.observer.action_done(self._daemonset, action, error)
        decision = retry_decision(action, verdict, owner_gone=self._is_over)
        if decision is RetryDecision.REPORT:
            self._record_event(event_of(action, message_of(error)))
        counts = self._state.write_backoff.is_failure(action.backoff_key, counts=WRITE_OUTCOMES[verdict].counts)
        looks = counts or (decision is RetryDecision.CHECK and isinstance(action, actions.OnPod))
        is_retried, is_taken, retry_error = decision is not RetryDecision.NONE, False, error
        done: bool | None = False
        try:
            if decision is RetryDecision.IF_PRESENT and isinstance(action, actions.OnPod | actions.OnRevision):
                is_retried = await self._requests.still_exists(action)
            is_taken = verdict is WriteVerdict.ALREADY_EXISTS and await self._requests.is_name_taken(action)
            if looks and may_be_done(action, verdict):
                done = await self._requests.was_done(action)
        except ApiError as second:
            is_retried, done = True, None
            retry_error = error if decision is RetryDecision.REPORT else second
        if decision is RetryDecision.CHECK and done and isinstance(action, actions.UpdateInPlace):
            self._record_event(event_of(action))  # no later pass reports it
        return ActionResult(
            action=action,
            error=error,
            retry_error=retry_error if is_retried else None,
            # a failed write's back-off frees its share of the budget, which must not happen while it may be done
            counts=counts and done is False,
            name_taken=is_taken,
        )

    def _after_success(self, action: actions.Action) -> ActionResult:
        state = self._state
        reverted = state.reverted_writes.reverted(action, state.write_backoff.failing, elapsed())
        self._dependencies.observer.action_done(self._daemonset, action, reverted)
        if reverted is not None:
            counts = state.write_backoff.is_suspect(action.backoff_key)
            return ActionResult(action=action, error=reverted, retry_error=reverted, counts=counts)
        self._record_event(event_of(action))
        return ActionResult(action=action)

    async def _may_adopt(self) -> None:
        """Raises the error that forbids adoptions: the DaemonSet is gone, or could not be read."""
        if self._owner_read is None:
            self._owner_read = asyncio.get_running_loop().create_future()
            self._owner_read.set_result(await self._requests.owner_error())
        if (forbidden := await self._owner_read) is not None:
            raise forbidden

    def _record_event(self, note: actions.Note | None) -> None:
        if note is not None:
            self._dependencies.observer.event(self._daemonset, note)


class Requests:
    """The writes of one pass, and its reads where a stale cache would do harm. The next pass waits until the caches
    show what both found. Methods raise ApiError unless noted."""

    def __init__(self, daemonset: DaemonSet, compiled: Compiled, dependencies: Dependencies) -> None:
        self._daemonset, self._compiled, self._client = daemonset, compiled, dependencies.client
        self._expectations, expects = dependencies.expectations, partial(self._expect_version, PODS)
        self._in_place = InPlaceWrites(self._client, dependencies.clock, expects, compiled.rules.owns)

    async def send(self, action: actions.Action) -> None:
        client, daemonset = self._client, self._daemonset
        match action:
            case actions.CreatePod() | actions.ProbeTemplate():
                renderer, name = self._compiled.renderer(daemonset, action.revision), action.name
                probes = isinstance(action, actions.ProbeTemplate)  # the server checks everything and stores nothing
                body = (renderer.whole if probes and action.strict else renderer.body)(name, action.node)
                written = await client.create(
                    PODS, daemonset.namespace, body, name=name, dry_run=probes, strict=action.strict
                )
                if not probes:
                    self._expect_version(PODS, written)
                self._check(action, written)
            case actions.DeletePod():
                seen = action.pod.version if action.as_seen else ""
                deleted = await client.delete(PODS, action.pod, version=seen)
                self._expect_deletion(action.pod.uid, deleted)
            case actions.CreateRevision():
                document = revision.encode(revision_body(daemonset, action))
                written = await client.create(REVISIONS, daemonset.namespace, document, name=action.name)
                self._expect_version(REVISIONS, written)
            case actions.DeleteRevision():
                await client.delete(REVISIONS, action.revision)
            case actions.AdoptPod() | actions.ReleasePod() | actions.RelabelPod():
                self._expect_version(PODS, await client.patch(PODS, action.pod, metadata_patch(action, daemonset)))
            case actions.AdoptRevision() | actions.RenumberRevision() | actions.RecordRun():
                written = await client.patch(REVISIONS, action.revision, metadata_patch(action, daemonset))
                self._expect_version(REVISIONS, written)
            case _:
                await self._in_place.carry_out(action)

    async def owner_error(self) -> ApiError | None:
        """Why nothing may be adopted: the DaemonSet was deleted or replaced, or cannot be read."""
        daemonset = self._daemonset
        try:
            live = await self._client.get(DAEMONSETS, daemonset.key)
        except ApiError as error:
            return error
        if live is None or live.uid != daemonset.uid or live.terminating:
            words = "it was deleted or replaced meanwhile; nothing is adopted"
            return Conflict("get", DAEMONSETS.describe(daemonset.key), words)
        return None

    async def is_name_taken(self, action: actions.Action) -> bool:
        """Whether the name of a new object belongs to one that the action would not have made, so that it needs
        another. A revision differs by content or owner, or is terminating or without the required labels."""
        uid, rules = self._daemonset.uid, self._compiled.rules
        try:
            if isinstance(action, actions.CreatePod):
                pod = await self._client.get(PODS, self._key(action.name))
                if pod is None or pod.owner_uid != uid:
                    return True
                self._expect_version(PODS, pod)
            elif isinstance(action, actions.CreateRevision):
                found = await self._client.get(REVISIONS, self._key(action.name))
                if found is None or found.terminating or found.identity != self._daemonset.identity:
                    return True
                if found.owner_uid != uid and (found.owner_uid or not rules.owns(found.labels)):
                    return True
                self._expect_version(REVISIONS, found)
        except NotFound:
            pass
        return False

    async def still_exists(self, action: actions.OnPod | actions.OnRevision) -> bool:
        """Whether the object exists although the write got "not found", which a webhook can also answer."""
        if isinstance(action, actions.OnPod):
            pod = await self._live(action.pod, PODS)
            return pod is not None and not pod.terminating
        found = await self._live(action.revision, REVISIONS)
        return found is not None and not found.terminating

    async def was_done(self, action: actions.InDoubt) -> bool | None:
        """Whether an attempt with a lost answer has succeeded; None if that is unknown, because its pod is gone."""
        match action:
            case actions.CreatePod():
                try:
                    made = await self._client.get(PODS, self._key(action.name))
                except NotFound:
                    return False
                return made is not None and made.owner_uid == self._daemonset.uid
            case actions.DrainPod():
                return False  # if it is done, the pod is not ready, and counts so
            case _:
                pod = await self._live(action.pod, PODS)
        is_gone = pod is None or pod.terminating
        match action:
            case actions.DeletePod():
                if is_gone:
                    self._expect_deletion(action.pod.uid, None if pod is None else pod.version)
                return is_gone
            case actions.UpdateInPlace() if pod is not None and pod.hash == action.revision.hash:
                return True
            case actions.PrepareDelete() if pod is not None:
                self._expect_version(PODS, pod)
                return None if is_gone else pod.held_by_hook
            case _:
                return None if is_gone else False

    def _check(self, action: actions.CreatePod | actions.ProbeTemplate, written: Written) -> None:
        """Raises MutatedByWebhook if a webhook changed the labels of the selector or of the revision."""
        labels, rules = written.labels or {}, self._compiled.rules
        created = Ref(namespace=self._daemonset.namespace, name=action.name, uid=written.uid)
        if not rules.owns(labels):
            probes = isinstance(action, actions.ProbeTemplate)
            raise labels_mutated("create", replace(created, uid="") if probes else created)
        if labels.get(HASH_LABEL) != action.revision.hash:
            raise MutatedByWebhook(
                "create", PODS.describe(created), f"a webhook removes or changes its label {HASH_LABEL}"
            )

    async def _live(self, ref: Ref, kind: Resource[W, N]) -> N | None:
        """The object on the server; None if it is gone or replaced."""
        try:
            found = await self._client.get(kind, Key(ref.namespace, ref.name))
        except NotFound:
            return None
        return found if found is not None and found.uid == ref.uid else None

    def _key(self, name: str) -> Key:
        return Key(self._daemonset.namespace, name)

    def _expect_version(self, kind: Resource[W, N], seen: Written | NamespacedObject) -> None:
        self._expectations.expect_version(self._daemonset.uid, kind.name, seen.version, elapsed())

    def _expect_deletion(self, pod_uid: str, version: str | None) -> None:
        self._expectations.expect_deletion(self._daemonset.uid, pod_uid, elapsed(), version)


def metadata_patch(
    action: actions.AdoptPod
    | actions.AdoptRevision
    | actions.ReleasePod
    | actions.RelabelPod
    | actions.RenumberRevision
    | actions.RecordRun,
    daemonset: DaemonSet,
) -> patch.JsonPatch:
    """The patch of an action, guarded by the version that the pass saw; for a label, which may always be set, by the
    uid alone."""
    match action:
        case actions.AdoptPod(pod=ref) | actions.AdoptRevision(revision=ref):
            reference = owner_reference(daemonset)
            operations: patch.JsonPatch = (
                patch.add(reference, "metadata", "ownerReferences", "-")
                if action.owners
                else patch.add([reference], "metadata", "ownerReferences"),
            )
            if isinstance(action, actions.AdoptRevision) and action.never_ran:
                have: dict[str, str] | None = {} if action.annotated else None
                operations += patch.merged("annotations", {NEVER_RAN_ANNOTATION: "true"}, have)
        case actions.ReleasePod(pod=ref):
            operations = (patch.remove("metadata", "ownerReferences", str(action.owner_index)),)
        case actions.RenumberRevision(revision=ref):
            operations = (patch.add(action.number, "revision"),)
        case actions.RecordRun(revision=ref):
            operations = (patch.remove("metadata", "annotations", NEVER_RAN_ANNOTATION),)
        case actions.RelabelPod(pod=ref):
            return patch.guarded_by_uid(ref.uid, patch.add(action.hash, "metadata", "labels", HASH_LABEL))
        case _:
            assert_never(action)
    return patch.guarded_by_version(ref.version, *operations)


def revision_body(daemonset: DaemonSet, action: actions.CreateRevision) -> JSONObject:
    meta = daemonset.spec.template.get("metadata")
    labels = meta.get("labels") if isinstance(meta, dict) else None
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": action.name,
            "namespace": daemonset.namespace,
            "labels": {**(labels if isinstance(labels, dict) else {}), HASH_LABEL: action.hash},
            "annotations": {**daemonset.annotations, NEVER_RAN_ANNOTATION: "true"},
            "ownerReferences": [owner_reference(daemonset)],
        },
        "data": revision.payload(daemonset.spec.template),
        "revision": action.number,
    }
