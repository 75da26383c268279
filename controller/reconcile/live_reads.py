"""Reads from the API server where a stale cache would do harm: before adoptions, for a name that is taken, an object
reported absent, or a write whose answer was lost."""

from __future__ import annotations

from typing import TypeVar, assert_never

from controller.api.daemonset import DaemonSet
from controller.api.objects import Key, NamespacedObject, Ref
from controller.kube.client import Client
from controller.kube.errors import ApiError, Conflict, NotFound
from controller.kube.requests import DAEMONSETS, PODS, REVISIONS, Resource, Wire
from controller.planner import actions
from controller.planner.node_fit import Rules
from controller.runtime.clock import elapsed
from controller.runtime.expectations import Expectations

W = TypeVar("W", bound=Wire)
N = TypeVar("N", bound=NamespacedObject)


class LiveReads:
    """The reads of one pass. The next one waits until the caches show them. Methods raise ApiError unless noted."""

    def __init__(self, client: Client, expectations: Expectations, daemonset: DaemonSet, rules: Rules) -> None:
        self._client, self._expectations, self._daemonset, self._rules = client, expectations, daemonset, rules

    async def confirm_owner(self) -> None:
        """Raises Conflict if the DaemonSet was replaced or is being deleted, NotFound if it is gone."""
        daemonset = self._daemonset
        live = await self._client.get(DAEMONSETS, daemonset.key)
        if live is None or live.uid != daemonset.uid or live.terminating:
            words = "it was deleted or replaced meanwhile; nothing is adopted"
            raise Conflict("get", DAEMONSETS.describe(daemonset.key), words)

    async def is_taken(self, action: actions.Action) -> bool:
        """Whether the name belongs to an object that the action would not have made, so that it needs another."""
        match action:
            case actions.CreatePod() | actions.CreateRevision():
                try:
                    if isinstance(action, actions.CreatePod):
                        return await self._is_taken_by_another(action)
                    return await self._collides(action)
                except NotFound:
                    return False
            case actions.ProbeTemplate() | actions.OnPod() | actions.OnRevision():
                return False  # these store no new object
            case _:
                assert_never(action)

    async def still_exists(self, action: actions.OnPod | actions.OnRevision) -> bool:
        """Whether the object exists although the write got "not found", which a webhook can also answer."""
        if isinstance(action, actions.OnPod):
            pod = await self._live(action.pod, PODS)
            return pod is not None and not pod.terminating
        revision = await self._live(action.revision, REVISIONS)
        return revision is not None and not revision.terminating

    async def may_be_done(self, action: actions.InDoubt) -> bool:
        """Whether an earlier attempt with a lost answer may have succeeded; True, without raising, if the server
        cannot be asked. A failed write's back-off frees its share of the budget, which must not happen while it may
        have been done."""
        try:
            match action:
                case actions.CreatePod():
                    made = await self._client.get(PODS, Key(self._daemonset.namespace, action.name))
                    return made is not None and made.owner_uid == self._daemonset.uid
                case actions.DrainPod():
                    return False  # if it is done, the pod is not ready, and counts so
                case actions.DeletePod() | actions.UpdateInPlace() | actions.PrepareDelete():
                    pod = await self._live(action.pod, PODS)
                    if pod is None or pod.terminating:
                        return True
                    if isinstance(action, actions.UpdateInPlace):
                        return pod.hash == action.revision.hash
                    return isinstance(action, actions.PrepareDelete) and pod.held_by_hook
                case _:
                    assert_never(action)
        except NotFound:
            return False
        except ApiError:
            return True

    async def check_outcome(self, action: actions.InDoubt) -> bool:
        """Looks up a write with a lost answer. True for a finished update in place, which no later pass reports."""
        match action:
            case actions.CreatePod() | actions.DrainPod():
                return False  # tried again under the same name, or on the same pod
            case actions.DeletePod(pod=ref):
                pod = await self._live(ref, PODS)
                if pod is None or pod.terminating:
                    version = None if pod is None else pod.version
                    self._expectations.expect_deletion(self._daemonset.uid, ref.uid, elapsed(), version)
                return False
            case actions.PrepareDelete(pod=ref):
                pod = await self._live(ref, PODS)
                if pod is not None:
                    self._expect_version(PODS.name, pod.version)
                return False
            case actions.UpdateInPlace():
                pod = await self._live(action.pod, PODS)
                return pod is not None and pod.hash == action.revision.hash
            case _:
                assert_never(action)

    async def _is_taken_by_another(self, action: actions.CreatePod) -> bool:
        pod = await self._client.get(PODS, Key(self._daemonset.namespace, action.name))
        if pod is None or pod.owner_uid != self._daemonset.uid:
            return True
        self._expect_version(PODS.name, pod.version)
        return False

    async def _collides(self, action: actions.CreateRevision) -> bool:
        """Whether that revision has other content, is terminating, has another owner or lacks required labels."""
        found = await self._client.get(REVISIONS, Key(self._daemonset.namespace, action.name))
        if found is None or found.terminating or found.identity != self._daemonset.identity:
            return True
        orphaned = not found.owner_uid and self._rules.owns(found.labels)
        if not orphaned and found.owner_uid != self._daemonset.uid:
            return True
        self._expect_version(REVISIONS.name, found.version)
        return False

    async def _live(self, ref: Ref, kind: Resource[W, N]) -> N | None:
        """The object on the server; None if it is gone or replaced."""
        try:
            found = await self._client.get(kind, Key(ref.namespace, ref.name))
        except NotFound:
            return None
        return found if found is not None and found.uid == ref.uid else None

    def _expect_version(self, resource: str, version: str) -> None:
        self._expectations.expect_version(self._daemonset.uid, resource, version, elapsed())
