"""Asks the server, as the controller does, whether updates in place would undo what admission did to pods at their
creation: by dry runs, which store nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from controller.api import patch
from controller.api.daemonset import DaemonSet
from controller.api.names import HASH_LABEL
from controller.api.objects import Ref
from controller.api.pod import ManagedPodView
from controller.api.revision import Revision
from controller.inplace.admission import (
    CONTAINER_MISSING,
    UPDATE_REFUSED,
    amount_undone,
    by_admission,
    image_undone,
    swapping_all,
)
from controller.inplace.change import InPlaceChange
from controller.inplace.patches import asking
from controller.kube.client import Client
from controller.kube.errors import ApiError, Invalid
from controller.kube.requests import POD_VIEWS
from controller.planner.blockers import in_place_change_of
from controller.planner.rollout_state import rollout_state
from kubectl_plugin.cluster.documents import list_objects
from kubectl_plugin.cluster.invocation import Invocation
from kubectl_plugin.cluster.reads import owned_query
from kubectl_plugin.report.snapshot import Snapshot
from kubectl_plugin.report.world_of import world_of

WITHIN: Final = 5.0
"""Seconds for all answers; without them a verb goes on, and says less."""
MOST: Final = 20
"""Differences that are asked about. One pod stands for all that differ in the same way."""


async def with_admission(invocation: Invocation, snapshot: Snapshot, after: DaemonSet) -> Snapshot:
    """`snapshot` with the pods whose update in place to `after` would undo what admission did, and those of which
    this is not known."""
    changes, revision = _changes(snapshot, after)
    if revision is None or not changes:
        return snapshot
    client, unmapped, unsure = invocation.session.client, dict[str, str](), set[str]()
    try:
        async with asyncio.timeout(WITHIN):
            pods = await list_objects(client, POD_VIEWS, snapshot.key.namespace, owned_query(snapshot.daemonset))
            groups = _alike(pods, changes)
            unsure = {uid for group in groups for uid in _uids(group)}
            for group in groups[:MOST]:
                pod = group[0]
                why = await _why(client, pod, revision, changes[pod.metadata.uid], snapshot.now)
                if why is not None:
                    unsure -= _uids(group)
                    unmapped |= dict.fromkeys(_uids(group), why) if why else {}
    except (ApiError, TimeoutError) as error:
        words = str(error) if isinstance(error, ApiError) else f"no answer within {WITHIN:g}s"
        invocation.terminal.note(f"cannot tell of all pods what admission changed: {words}")
    return replace(snapshot, unmapped=unmapped, unasked=frozenset(unsure))


def _changes(snapshot: Snapshot, after: DaemonSet) -> tuple[Mapping[str, InPlaceChange], Revision | None]:
    """The changes in place of images and resources, by uid of the pod, and the revision that they lead to."""
    if not (after.in_place and snapshot.pods_readable and snapshot.revisions_readable):
        return {}, None
    try:
        rollout = rollout_state(world_of(snapshot, after))
    except (ValueError, msgspec.MsgspecError):
        return {}, None
    old = (node.old for node in rollout.outdated if node.old is not None)
    found = {pod.uid: in_place_change_of(rollout, pod) for pod in old}
    return {
        uid: one for uid, one in found.items() if isinstance(one, InPlaceChange) and (one.images or one.resources)
    }, rollout.revision


def _alike(pods: Iterable[ManagedPodView], changes: Mapping[str, InPlaceChange]) -> Sequence[list[ManagedPodView]]:
    """The pods that admission has changed, by revision and by what differs."""
    groups: dict[object, list[ManagedPodView]] = {}
    for pod in pods:
        change = changes.get(pod.metadata.uid)
        if change is not None and (found := by_admission(pod, change)):
            of = (pod.metadata.labels or {}).get(HASH_LABEL)
            groups.setdefault((of, frozenset(found.images.items()), found.amounts, found.missing), []).append(pod)
    return [*groups.values()]


def _uids(pods: Iterable[ManagedPodView]) -> set[str]:
    return {pod.metadata.uid for pod in pods}


async def _why(
    client: Client, pod: ManagedPodView, revision: Revision, change: InPlaceChange, now: float
) -> str | None:
    """Why the controller would replace the pod; empty: it would not. None: the server does not say."""
    meta, found = pod.metadata, by_admission(pod, change)
    ref = Ref(namespace=meta.namespace, name=meta.name, uid=meta.uid, version=meta.resource_version)
    if found.missing:
        return CONTAINER_MISSING
    try:
        if found.images:
            operations = swapping_all(pod, revision, change, now)
            shown = await client.preview(POD_VIEWS, ref, patch.guarded_by_version(ref.version, *operations))
            if shown is None:
                return None
            if why := image_undone(found, change, shown):
                return why
        if found.amounts:
            operations = asking(pod, change.resources)
            shown = await client.preview(POD_VIEWS, ref, patch.guarded_by_uid(ref.uid, *operations), sub="resize")
            return amount_undone(found, change, shown) if shown is not None else None
    except Invalid:
        return UPDATE_REFUSED
    except ApiError:
        return None
    return ""
