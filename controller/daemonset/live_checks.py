"""Looks at the server itself, past the caches, where a stale cache would do harm: before adoptions, when a name that
we derived turns out to be taken, and when the answer to a deletion was lost."""

from __future__ import annotations

from typing import TypeVar, assert_never

from controller.api.daemonset import DaemonSet
from controller.api.meta import Key, Named, Ref
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.daemonset.answers import Briefing
from controller.daemonset.dependencies import Dependencies
from controller.kube.client import Client
from controller.kube.errors import ApiError, Conflict, NotFound
from controller.kube.kinds import DAEMONSETS, PODS, REVISIONS
from controller.kube.resource import Resource, Wire
from controller.planner import actions
from controller.runtime.clock import elapsed

W = TypeVar("W", bound=Wire)
N = TypeVar("N", bound=Named)


async def confirm(client: Client, daemonset: DaemonSet) -> None:
    """Re-read the DaemonSet before the adoptions of a pass.

    Raises Conflict when it is another object by now, or on its way out; NotFound when it is gone.
    """
    live = await client.get(DAEMONSETS, daemonset.key)
    if live is None or live.uid != daemonset.uid or live.dying:
        words = "it was deleted or replaced meanwhile; nothing is adopted"
        raise Conflict("get", DAEMONSETS.describe(daemonset.key), words)


async def is_taken(action: actions.Action, briefing: Briefing, dependencies: Dependencies) -> bool:
    """Whether the object that has the action's name is not what the action would have made: then another name is
    needed."""
    match action:
        case actions.CreatePod():
            return await _is_taken_by_another(action, briefing.daemonset, dependencies)
        case actions.CreateRevision():
            return await _collides(action, briefing, dependencies)
        case actions.ProbeTemplate() | actions.OnPod() | actions.OnRevision():
            return False  # nothing is made
        case _:
            assert_never(action)


async def _is_taken_by_another(action: actions.CreatePod, daemonset: DaemonSet, dependencies: Dependencies) -> bool:
    """The pod's derived name exists. Is it our pod, the cache is behind: wait for it. Else choose another name."""
    try:
        found = await dependencies.client.get(PODS, Key(daemonset.namespace, action.name))
    except NotFound:
        return False
    if found is not None and found.owner_uid == daemonset.uid:
        dependencies.ledger.wrote(daemonset.uid, PODS.name, found.version, elapsed())
        return False
    return True


async def look_at_deleted_pod(action: actions.DeletePod, daemonset: DaemonSet, dependencies: Dependencies) -> None:
    """The answer to a pod's deletion was lost. If the pod is being deleted, or gone, nothing more is decided until
    the caches show that."""
    found = await _left_of(action.pod, PODS, dependencies)
    if found is None:
        dependencies.ledger.deleted(daemonset.uid, action.pod.uid, elapsed())
    elif found.dying:
        dependencies.ledger.deleted(daemonset.uid, action.pod.uid, elapsed(), found.version)


async def look_at_prepared_pod(
    action: actions.PrepareDelete, daemonset: DaemonSet, dependencies: Dependencies
) -> None:
    """The answer to the preparation of a pod's deletion was lost. Nothing more is decided until the caches know the
    pod as it is now."""
    found = await _left_of(action.pod, PODS, dependencies)
    if found is not None:
        dependencies.ledger.wrote(daemonset.uid, PODS.name, found.version, elapsed())


async def is_updated(action: actions.UpdateInPlace, dependencies: Dependencies) -> bool:
    """Whether an update in place was done whose answer was lost: nothing else would count it."""
    found = await _left_of(action.pod, PODS, dependencies)
    return found is not None and found.hash == action.revision.hash


async def may_have_come_through(action: actions.InDoubt, daemonset: DaemonSet, dependencies: Dependencies) -> bool:
    """Whether an earlier attempt at this write, whose answer was lost, has succeeded after all.

    A place where writes fail is passed over, and its part of the budget goes to the next node: not in doubt.
    """
    try:
        match action:
            case actions.CreatePod():
                made = await dependencies.client.get(PODS, Key(daemonset.namespace, action.name))
                return made is not None and made.owner_uid == daemonset.uid
            case actions.DeletePod():
                found = await _left_of(action.pod, PODS, dependencies)
                return found is None or found.dying
            case actions.UpdateInPlace():
                updated = await _left_of(action.pod, PODS, dependencies)
                return updated is None or updated.dying or updated.hash == action.revision.hash
            case actions.PrepareDelete():
                held = await _left_of(action.pod, PODS, dependencies)
                return held is None or held.dying or held.held_by_hook
            case actions.DrainPod():
                return False
            case _:
                assert_never(action)
    except NotFound:
        return False
    except ApiError:
        return True


async def is_still_there(action: actions.OnPod | actions.OnRevision, dependencies: Dependencies) -> bool:
    """Whether the object of a write that was answered by "not found" exists: a webhook can answer so too."""
    kept: Pod | Revision | None
    if isinstance(action, actions.OnPod):
        kept = await _left_of(action.pod, PODS, dependencies)
    else:
        kept = await _left_of(action.revision, REVISIONS, dependencies)
    return kept is not None and not kept.dying


async def _left_of(ref: Ref, kind: Resource[W, N], dependencies: Dependencies) -> N | None:
    """The object as the server has it; None where it is gone, even if another one has its name now."""
    try:
        found = await dependencies.client.get(kind, Key(ref.namespace, ref.name))
    except NotFound:
        return None
    return found if found is not None and found.uid == ref.uid else None


async def _collides(action: actions.CreateRevision, briefing: Briefing, dependencies: Dependencies) -> bool:
    """Whether the revision that has our computed name is a collision: its content is another, or it cannot become
    ours because it is being deleted, has another owner or lacks our labels. If not, the cache is behind."""
    daemonset = briefing.daemonset
    try:
        found = await dependencies.client.get(REVISIONS, Key(daemonset.namespace, action.name))
    except NotFound:
        return False
    if found is None or found.dying or found.identity != daemonset.identity:
        return True
    orphaned = not found.owner_uid and briefing.compiled.rules.owns(found.labels)
    if not orphaned and found.owner_uid != daemonset.uid:
        return True
    dependencies.ledger.wrote(daemonset.uid, REVISIONS.name, found.version, elapsed())
    return False
