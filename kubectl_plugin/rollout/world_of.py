"""The world the controller would decide from, built from what the plugin has read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controller.api.daemonset import DaemonSet
from controller.api.names import HASH_LABEL
from controller.api.node import Node
from controller.api.objects import JSONObject
from controller.api.revision import Revision
from controller.inplace.change import NotPossible, changes_to
from controller.planner.node_fit import Rules
from controller.planner.revisions import placements_of
from controller.planner.world import BeingPulled, Unpullable, Unpulled, World, unpulled
from kubectl_plugin.rollout.snapshot import NodePull, PullStage, Snapshot, worst_pulls

_NOT_KNOWN: Final = NotPossible(why="without the right to list revisions nobody can tell whether it is done in place")


def world_of(snapshot: Snapshot, daemonset: DaemonSet | None = None) -> World:
    """What the controller would decide from now; `daemonset` is another spec to try.

    Feature gates cannot be read: defaults are assumed, except that a pod being resized proves that cpu and memory
    change in place. Without the right to list nodes, nodes with pods are used; without the right to list revisions,
    hashes in the status and on pods, all numbered 0. Unfinished image pulls do not block."""
    daemonset = daemonset or snapshot.daemonset
    pulls = snapshot.pulls if daemonset.identity == snapshot.daemonset.identity else ()
    waiting = unpulled_of(daemonset, worst_pulls(pulls))
    return world_with(
        snapshot, daemonset, {node: one for node, one in waiting.items() if isinstance(one, Unpullable)}
    )


def world_with(snapshot: Snapshot, daemonset: DaemonSet, lacking: Mapping[str, Unpulled]) -> World:
    """Like `world_of`, with the nodes that wait for an image (`World.unpulled`). Raises ValueError."""
    rolling, nodes = daemonset.rolling_update, snapshot.nodes
    template = daemonset.spec.template if nodes is not None else {}
    revisions = _revisions(snapshot)
    resizable = any(
        one.pod.in_progress is not None and one.pod.in_progress.resize is not None for one in snapshot.pods
    )
    changes = changes_to(daemonset, revisions, resizable=resizable)
    return World(
        daemonset=daemonset,
        rules=Rules(
            template,
            rolling.selector if rolling and nodes is not None else None,
            daemonset.spec.selector,
            order=rolling.order if rolling and nodes is not None else (),
            topology=rolling.topology if rolling and nodes is not None else None,
        ),
        nodes=nodes if nodes is not None else _stand_ins(snapshot),
        pods=tuple(one.pod for one in snapshot.pods),
        revisions=revisions,
        changes=changes if snapshot.revisions_readable else dict.fromkeys(changes, _NOT_KNOWN),
        reads_env=True,
        resizable=resizable,
        placements=placements_of(revisions, {}) if nodes is not None else {one.uid: Rules({}) for one in revisions},
        unmapped=snapshot.unmapped,
        unpulled=lacking,
        now=snapshot.now,
        collisions=(daemonset.status.collision_count or 0) if daemonset.status else 0,
    )


def _revisions(snapshot: Snapshot) -> tuple[Revision, ...]:
    """Without the right to list them: the hash comes from the status once it has seen this spec, since a revision
    stored by another controller may have a hash that differs from the computed one."""
    if snapshot.revisions_readable:
        return tuple(one.revision for one in snapshot.revisions)
    daemonset, status = snapshot.daemonset, snapshot.daemonset.status
    if status is None or not status.update_revision or status.observed_generation < daemonset.generation:
        return ()
    live = status.update_revision
    older = sorted({one.pod.hash for one in snapshot.pods} - {"", live})
    return (
        _known_by_hash(daemonset, live, daemonset.spec.template, daemonset.identity),
        *(_known_by_hash(daemonset, hash_, {}, hash_) for hash_ in older),
    )


def _known_by_hash(daemonset: DaemonSet, hash_: str, template: JSONObject, identity: str) -> Revision:
    return Revision(
        namespace=daemonset.namespace,
        name=f"{daemonset.name}-{hash_}",
        uid=hash_,
        version="",
        owner_uid=daemonset.uid,
        owner_index=0,
        labels={HASH_LABEL: hash_},
        number=0,
        template=template,
        identity=identity,
    )


def _stand_ins(snapshot: Snapshot) -> tuple[Node, ...]:
    names = sorted({one.pod.node for one in snapshot.pods} - {""})
    return tuple(Node(name=name, uid="", version="", labels={}, taints=()) for name in names)


def unpulled_of(daemonset: DaemonSet, pulls: Mapping[str, NodePull]) -> Mapping[str, Unpulled]:
    """Nodes that wait for an image, as in `World`; for in-place updates also those that will never have it."""
    if not daemonset.waits_for_images:
        return {}
    failed = {node: unpulled(one.why) for node, one in pulls.items() if one.stage is PullStage.FAILED}
    pulling = [node for node, one in pulls.items() if one.stage not in (PullStage.THERE, PullStage.FAILED)]
    return {**{node: BeingPulled() for node in pulling}, **(failed if daemonset.in_place else {})}
