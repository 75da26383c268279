"""Reads from the API server, past the caches, where a stale cache would do harm: before adoptions, when a name that
we derived is taken, when an object is said to be absent, and when the answer to a write was lost.
"""

from __future__ import annotations

from typing import TypeVar, assert_never

from controller.api.daemonset import DaemonSet
from controller.api.objects import Key, NamespacedObject, Ref
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.kube.client import Client
from controller.kube.errors import ApiError, Conflict, NotFound
from controller.kube.requests import DAEMONSETS, PODS, REVISIONS, Resource, Wire
from controller.planner import actions
from controller.reconcile.compiled import Compiled
from controller.reconcile.dependencies import Dependencies
from controller.runtime.clock import elapsed

W = TypeVar("W", bound=Wire)
N = TypeVar("N", bound=NamespacedObject)


async def confirm(client: Client, daemonset: DaemonSet) -> None:
    """Read the DaemonSet again before the adoptions of a pass.

    Raises Conflict if it is another object of the same name by now, or is being deleted; NotFound if it is gone.
    """
    live = await client.get(DAEMONSETS, daemonset.key)
    if live is None or live.uid != daemonset.uid or live.terminating:
        words = "it was deleted or replaced meanwhile; nothing is adopted"
        raise Conflict("get", DAEMONSETS.describe(daemonset.key), words)


async def is_taken(
    action: actions.Action, daemonset: DaemonSet, compiled: Compiled, dependencies: Dependencies
) -> bool:
    """Whether the action's name belongs to an object that the action would not have made: another name is needed."""
    match action:
        case actions.CreatePod():
            return await _is_taken_by_another(action, daemonset, dependencies)
        case actions.CreateRevision():
            return await _collides(action, daemonset, compiled, dependencies)
        case actions.ProbeTemplate() | actions.OnPod() | actions.OnRevision():
            return False  # these store no new object
        case _:
            assert_never(action)


async def _is_taken_by_another(action: actions.CreatePod, daemonset: DaemonSet, dependencies: Dependencies) -> bool:
    """Whether the pod of that name is none of ours. If it is ours, the cache is behind, and is waited for."""
    try:
        found = await dependencies.client.get(PODS, Key(daemonset.namespace, action.name))
    except NotFound:
        return False
    if found is not None and found.owner_uid == daemonset.uid:
        dependencies.expectations.expect_version(daemonset.uid, PODS.name, found.version, elapsed())
        return False
    return True


async def look_at_deleted_pod(action: actions.DeletePod, daemonset: DaemonSet, dependencies: Dependencies) -> None:
    """The answer to a pod's deletion was lost. If the pod is being deleted, or gone, nothing more is decided until
    the caches show that."""
    found = await _left_of(action.pod, PODS, dependencies)
    if found is None:
        dependencies.expectations.expect_deletion(daemonset.uid, action.pod.uid, elapsed())
    elif found.terminating:
        dependencies.expectations.expect_deletion(daemonset.uid, action.pod.uid, elapsed(), found.version)


async def look_at_prepared_pod(
    action: actions.PrepareDelete, daemonset: DaemonSet, dependencies: Dependencies
) -> None:
    """The answer to the preparation of a pod's deletion was lost. Nothing more is decided until the caches know the
    pod as it is now."""
    found = await _left_of(action.pod, PODS, dependencies)
    if found is not None:
        dependencies.expectations.expect_version(daemonset.uid, PODS.name, found.version, elapsed())


async def is_updated(action: actions.UpdateInPlace, dependencies: Dependencies) -> bool:
    """Whether an update in place was done though its answer was lost: no later pass would tell of it."""
    found = await _left_of(action.pod, PODS, dependencies)
    return found is not None and found.hash == action.revision.hash


async def may_have_come_through(action: actions.InDoubt, daemonset: DaemonSet, dependencies: Dependencies) -> bool:
    """Whether an earlier attempt at this write, whose answer was lost, may have succeeded after all; also true if the
    server cannot be asked.

    If a write failed, its place is held back and the next node gets its share of the budget. That must not happen
    while the write may have been done.
    """
    try:
        match action:
            case actions.CreatePod():
                made = await dependencies.client.get(PODS, Key(daemonset.namespace, action.name))
                return made is not None and made.owner_uid == daemonset.uid
            case actions.DeletePod():
                found = await _left_of(action.pod, PODS, dependencies)
                return found is None or found.terminating
            case actions.UpdateInPlace():
                updated = await _left_of(action.pod, PODS, dependencies)
                return updated is None or updated.terminating or updated.hash == action.revision.hash
            case actions.PrepareDelete():
                held = await _left_of(action.pod, PODS, dependencies)
                return held is None or held.terminating or held.held_by_hook
            case actions.DrainPod():
                return False  # if it is done, the pod is not ready, and counts so
            case _:
                assert_never(action)
    except NotFound:
        return False
    except ApiError:
        return True


async def is_still_there(action: actions.OnPod | actions.OnRevision, dependencies: Dependencies) -> bool:
    """Whether the object exists although the write got "not found": a webhook can answer that, too."""
    kept: Pod | Revision | None
    if isinstance(action, actions.OnPod):
        kept = await _left_of(action.pod, PODS, dependencies)
    else:
        kept = await _left_of(action.revision, REVISIONS, dependencies)
    return kept is not None and not kept.terminating


async def _left_of(ref: Ref, kind: Resource[W, N], dependencies: Dependencies) -> N | None:
    """The object as the server has it; None if it is gone, even if another one has its name now."""
    try:
        found = await dependencies.client.get(kind, Key(ref.namespace, ref.name))
    except NotFound:
        return None
    return found if found is not None and found.uid == ref.uid else None


async def _collides(
    action: actions.CreateRevision, daemonset: DaemonSet, compiled: Compiled, dependencies: Dependencies
) -> bool:
    """Whether the revision of that name is a collision: its content differs, or it cannot become ours because it is
    being deleted, has another owner or lacks our labels. If not, the cache is behind, and is waited for."""
    try:
        found = await dependencies.client.get(REVISIONS, Key(daemonset.namespace, action.name))
    except NotFound:
        return False
    if found is None or found.terminating or found.identity != daemonset.identity:
        return True
    orphaned = not found.owner_uid and compiled.rules.owns(found.labels)
    if not orphaned and found.owner_uid != daemonset.uid:
        return True
    dependencies.expectations.expect_version(daemonset.uid, REVISIONS.name, found.version, elapsed())
    return False
