"""Simulates a cluster: every planned action is done and every awaited event happens. No decisions are made here.

The server accepts every write, a deleted pod disappears at once, and a created one gets ready after the usual time.
Failing pods keep failing, and unreachable nodes stay so. Two pods with the same host port never run on one node.
Before an action is done, `node_moves` says what it does to its node, and why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import TypeAlias, assert_never

from msgspec.structs import replace

from controller.api.daemonset import DaemonSetStatus, LifecycleHook
from controller.api.in_place import Resize
from controller.api.names import HASH_LABEL, LIFECYCLE_STATE_LABEL
from controller.api.objects import JSONObject, Value, fields_of, items_of
from controller.api.pod import Pod
from controller.inplace.change import InPlaceChange, NotPossible
from controller.planner import actions
from controller.planner.blockers import handlers, in_place_change_of
from controller.planner.nodes import NodeInfo
from controller.planner.plan import Plan
from controller.planner.revisions import current_revision, placements_of
from controller.planner.rollout_state import RolloutState
from controller.planner.status import Status
from controller.planner.world import Accepted, Predecessor, World, predecessor
from kubectl_plugin.rollout.in_place import How, what_it_restarts

OUTSIDE_BUDGET = "old pod not available: outside the budget"


class NodeMove(Value):
    node: str
    how: How
    why: str
    """Empty unless there is a reason besides the node's turn."""
    detail: str | None = None
    """What an update in place restarts, or why the pod is re-created instead."""
    pod: str | None = None
    """Name of the deleted pod; None if none is deleted."""
    revision: int | None = None
    """Revision number of the new pod; None if none is created."""

    @property
    def is_urgent(self) -> bool:
        """Whether the node is updated outside the budget."""
        return self.why == OUTSIDE_BUDGET


class Wave(Value):
    """Nodes that are updated together, in the controller's order."""

    begins: float
    """Seconds from now, estimated from the pace of recent updates."""
    after: tuple[str, ...]
    """Nodes whose pods must get ready first; empty if the wave begins at once or only waits for time to pass."""
    holding: tuple[str, ...]
    """Other nodes without an available pod when the wave begins; they count against maxUnavailable."""
    moves: tuple[NodeMove, ...]
    step: int | None = None
    """The step of the rollout, from 1; None: it does not go by steps."""


def node_moves(rollout: RolloutState, planned: Iterable[actions.Action]) -> Iterator[NodeMove]:
    """The moves of the actions `planned` for `rollout`; `Harmless` actions are skipped."""
    nodes = {node.name: node for node in rollout.nodes}
    for action in planned:
        if isinstance(action, actions.Harmless):
            continue
        match action:
            case actions.DeletePod() | actions.PrepareDelete():
                yield _deletion(rollout, action, nodes.get(action.node))
            case actions.CreatePod():
                yield _creation(action, nodes.get(action.node))
            case actions.UpdateInPlace() | actions.DrainPod():
                yield _in_place(rollout, action, nodes.get(action.node))
            case _:
                assert_never(action)


def one_per_node(moves: Iterable[NodeMove]) -> tuple[NodeMove, ...]:
    """Merges the moves of each node, such as a deletion and a creation, in the order of the first."""
    merged: dict[str, NodeMove] = {}
    for move in moves:
        before = merged.get(move.node)
        merged[move.node] = move if before is None else _merged(before, move)
    return tuple(merged.values())


def _merged(first: NodeMove, second: NodeMove) -> NodeMove:
    revision = first.revision if second.revision is None else second.revision
    pod = first.pod or second.pod
    surge = How.SURGE in (first.how, second.how)
    how = How.SURGE if surge else How.RECREATE if revision is not None and pod else first.how
    return replace(first, how=how, revision=revision, pod=pod, detail=first.detail or second.detail)


def _in_place(
    rollout: RolloutState, action: actions.UpdateInPlace | actions.DrainPod, node: NodeInfo | None
) -> NodeMove:
    old = node.old if node is not None else None
    change = in_place_change_of(rollout, old) if old is not None else None
    detail = what_it_restarts(change) if isinstance(change, InPlaceChange) else None
    why = "" if node is None or node.old_ready or (old is not None and old.draining) else OUTSIDE_BUDGET
    number = rollout.revision.number
    return NodeMove(node=action.node, how=How.IN_PLACE, why=why, detail=detail, revision=number)


def _deletion(
    rollout: RolloutState, action: actions.DeletePod | actions.PrepareDelete, node: NodeInfo | None
) -> NodeMove:
    old = node.old if node is not None else None
    how = How.FINISH if action.why is actions.DeleteReason.SURGED else How.REMOVE
    why, detail = "" if how is How.FINISH else str(action.why), None
    if action.why is actions.DeleteReason.OUTDATED:
        why = "" if node is None or node.old_ready or (old is not None and old.held_by_hook) else OUTSIDE_BUDGET
        if isinstance(action, actions.DeletePod) and action.refusal is not None and old is not None:
            change = in_place_change_of(rollout, old)
            detail = change.why if isinstance(change, NotPossible) else None
    return NodeMove(node=action.node, how=how, why=why, detail=detail, pod=action.pod.name)


def _creation(action: actions.CreatePod, node: NodeInfo | None) -> NodeMove:
    number = action.revision.number
    if node is not None and node.old is not None:
        why = "" if node.old_ready else OUTSIDE_BUDGET
        return NodeMove(node=action.node, how=How.SURGE, why=why, pod=node.old.name, revision=number)
    was_there = node is not None and (node.had_current or node.had_old)
    why = "its pod is gone" if was_there else "no pod yet"
    return NodeMove(node=action.node, how=How.CREATE, why=why, revision=number)


NeverReady: TypeAlias = Set[tuple[str, str]]
"""Pairs of node and revision hash for which a pod never gets ready."""


def with_drains_under_way(world: World) -> World:
    """`world` with pods that are draining already in the same state as those that `world_after` drains."""
    grace, now = world.daemonset.in_place_grace, world.now
    pods = (
        _without_traffic(pod, grace, now) if pod.draining and pod.in_progress is None else pod for pod in world.pods
    )
    return replace(world, pods=tuple(pods))


def _without_traffic(pod: Pod, grace: float, now: float) -> Pod:
    """The pod with its gates closed. `created` is the end of its grace period, from which readiness is timed."""
    since = min((gate.since for gate in pod.gates if gate.draining and gate.since is not None), default=now)
    gates = tuple(replace(gate, open=False, draining=True, since=None) for gate in pod.gates)
    return replace(pod, gates=gates, ready=False, ready_since=None, created=min(since, now) + grace)


def world_after(world: World, decided: Plan) -> World:
    if decided.status is not None:
        daemonset = world.daemonset
        world = replace(world, daemonset=replace(daemonset, status=_stored_status(daemonset.status, decided.status)))
    world = replace(world, unavailable_since=decided.unavailable_since)
    if not decided.actions:
        return world
    after = _WorldAfter(world)
    for action in decided.actions:
        after.apply(action)
    return after.world()


def world_after_waiting(world: World, never_ready: NeverReady, pace: float) -> tuple[World, tuple[str, ...]] | None:
    """The next world, and nodes whose pods got ready, by descending name; None if nothing is awaited. Pods get ready
    `pace` seconds after `created` (the end of the grace period for restarts in place); lost ones are deleted."""
    silent = {node.name for node in world.nodes if node.unreachable}
    known = {node.name for node in world.nodes}
    responsive = known - silent - {node.name for node in world.nodes if node.not_ready}
    hook = world.daemonset.pre_delete
    waiting = [pod for pod in world.pods if pod.node in responsive and _may_get_ready(pod, never_ready)]
    now = max([world.now, *(pod.created + pace for pod in waiting)])
    pods: list[Pod] = []
    gone: dict[str, Predecessor] = {}
    ready: list[str] = []
    released = False
    for pod in world.pods:
        if pod.terminating and pod.node not in silent:
            gone[pod.node] = predecessor(pod)
        elif pod.bound and pod.node not in known:
            continue  # the cluster's garbage collector deletes it
        elif hook is not None and pod.held_by_hook and handlers(pod, hook):
            pods.append(_released_by_hook(pod, hook))
            released = True
        elif pod.node in responsive and _may_get_ready(pod, never_ready):
            pods.append(replace(_updated_in_place(pod), bound=True, phase="Running", ready=True, ready_since=now))
            ready.append(pod.node)
        else:
            pods.append(pod)
    if not (ready or released) and len(pods) == len(world.pods):
        return None
    seen = {**world.predecessors, **gone} if gone else world.predecessors
    return replace(world, pods=tuple(pods), predecessors=seen, now=now), tuple(sorted(ready, reverse=True))


def _may_get_ready(pod: Pod, never_ready: NeverReady) -> bool:
    if pod.terminating or pod.ended or (pod.node, pod.hash) in never_ready:
        return False
    in_progress = pod.in_progress
    return not pod.ready if in_progress is None else in_progress.resize is not Resize.INFEASIBLE


def _updated_in_place(pod: Pod) -> Pod:
    return replace(pod, gates=tuple(replace(gate, open=True, draining=False) for gate in pod.gates), in_progress=None)


def _released_by_hook(pod: Pod, hook: LifecycleHook) -> Pod:
    labels = {key: value for key, value in pod.labels.items() if (hook.labels_handler or {}).get(key) != value}
    finalizers = tuple(finalizer for finalizer in pod.finalizers if finalizer not in (hook.finalizers_handler or ()))
    return replace(pod, labels=labels, finalizers=finalizers)


def _not_prepared(pod: Pod) -> Pod:
    labels = {key: value for key, value in pod.labels.items() if key != LIFECYCLE_STATE_LABEL}
    gates = tuple(
        replace(gate, open=gate.open or not gate.held_by_others, marked_not_ready=False) for gate in pod.gates
    )
    return replace(pod, labels=labels, gates=gates, ready=pod.ready_ignoring_hook, drained=False)


class _WorldAfter:
    """Carries out a plan, copying each collection of the world once per plan instead of once per action."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._pods = {pod.uid: pod for pod in world.pods}
        self._orphans = {pod.uid: pod for pod in world.orphans}
        self._revisions = {revision.uid: revision for revision in world.revisions}
        self._orphan_revisions = {revision.uid: revision for revision in world.orphan_revisions}
        self._predecessors = dict(world.predecessors)
        self._verdicts = dict(world.verdicts)
        self._silent = {node.name for node in world.nodes if node.unreachable}

    def world(self) -> World:
        revisions = tuple(self._revisions.values())
        return replace(
            self._world,
            pods=tuple(self._pods.values()),
            orphans=tuple(self._orphans.values()),
            revisions=revisions,
            placements=placements_of(revisions, self._world.placements),
            orphan_revisions=tuple(self._orphan_revisions.values()),
            predecessors=self._predecessors,
            verdicts=self._verdicts,
        )

    def apply(self, action: actions.Action) -> None:
        match action:
            case actions.CreatePod():
                pod = _created_pod(action, self._world)
                self._pods[pod.uid] = pod
            case actions.DeletePod() | actions.PrepareDelete():  # the hook is answered at once
                pod = self._pods.pop(action.pod.uid)
                if action.node in self._silent:
                    self._pods[pod.uid] = replace(pod, terminating=True)
                else:
                    self._predecessors[action.node] = predecessor(pod)
            case actions.ProbeTemplate():
                self._verdicts[action.revision.hash] = Accepted()
            case actions.AdoptPod():
                pod = self._orphans.pop(action.pod.uid)
                self._pods[pod.uid] = replace(pod, owner_uid=self._world.daemonset.uid)
            case actions.ReleasePod():
                pod = self._pods.pop(action.pod.uid)
                self._orphans[pod.uid] = replace(pod, owner_uid="")
            case actions.RelabelPod():
                pod = self._pods[action.pod.uid]
                self._pods[pod.uid] = replace(pod, labels={**pod.labels, HASH_LABEL: action.hash})
            case actions.CancelDelete():
                self._pods[action.pod.uid] = _not_prepared(self._pods[action.pod.uid])
            case (
                actions.DrainPod()
                | actions.UpdateInPlace()
                | actions.ContinueInPlace()
                | actions.ResizePod()
                | actions.OpenGates()
            ):
                self._carry_out_in_place(action)
            case actions.CreateRevision() | actions.OnRevision():
                self._carry_out_on_history(action)
            case _:
                assert_never(action)

    def _carry_out_in_place(self, action: actions.InPlaceAction) -> None:
        pod = self._pods[action.pod.uid]
        if isinstance(action, actions.DrainPod):
            self._pods[pod.uid] = _without_traffic(pod, self._world.daemonset.in_place_grace, self._world.now)
            return
        pod = _updated_in_place(pod)
        if isinstance(action, actions.UpdateInPlace):
            labels = {key: value for key, value in action.change.labels.items() if value is not None}
            pod = replace(pod, labels={**pod.labels, **labels, HASH_LABEL: action.revision.hash})
            if action.change.restarts:
                pod = replace(pod, ready=False, ready_since=None, created=max(pod.created, self._world.now))
        self._pods[pod.uid] = pod

    def _carry_out_on_history(self, action: actions.RevisionAction) -> None:
        match action:
            case actions.AdoptRevision():
                found = self._orphan_revisions.pop(action.revision.uid)
                self._revisions[found.uid] = replace(
                    found, owner_uid=self._world.daemonset.uid, never_ran=action.never_ran
                )
            case actions.CreateRevision():
                future, _ = current_revision(self._world)
                stored = replace(future, uid=f"planned-{future.name}", never_ran=True)
                self._revisions[stored.uid] = stored
            case actions.RenumberRevision():
                found = self._revisions[action.revision.uid]
                self._revisions[found.uid] = replace(found, number=action.number)
            case actions.RecordRun():
                found = self._revisions[action.revision.uid]
                self._revisions[found.uid] = replace(found, never_ran=False)
            case actions.DeleteRevision():
                del self._revisions[action.revision.uid]
            case _:
                assert_never(action)


def _created_pod(action: actions.CreatePod, world: World) -> Pod:
    """The name serves as the uid, because names are never reused."""
    meta = fields_of(action.revision.template.get("metadata"))
    labels = {key: str(one) for key, one in fields_of(meta.get("labels")).items()}
    finalizers = meta.get("finalizers")
    return Pod(
        namespace=world.daemonset.namespace,
        name=action.name,
        uid=f"planned-{action.name}",
        version="",
        owner_uid=world.daemonset.uid,
        owner_index=0,
        labels={**labels, HASH_LABEL: action.revision.hash},
        finalizers=tuple(str(finalizer) for finalizer in finalizers) if isinstance(finalizers, list) else (),
        created=world.now,
        node=action.node,
        bound=False,
        phase="Pending",
        terminating=False,
        ready=False,
        ready_since=None,
    )


def _stored_status(before: DaemonSetStatus | None, status: Status) -> DaemonSetStatus:
    """Only the fields that the next decision reads."""
    last = before or DaemonSetStatus()
    return DaemonSetStatus(
        observed_generation=status.observed_generation or last.observed_generation,
        update_revision=status.revision_hash or last.update_revision,
        rollout=status.rollout,
    )


def port_waiters(rollout: RolloutState) -> NeverReady:
    """When surging, the nodes (with the new hash) whose new pod waits forever for a host port of the ready old one.
    An old pod that is not ready is deleted once the new one exists, which frees its ports."""
    if not rollout.surging:
        return frozenset()
    wanted = _port_numbers(rollout.revision.template)
    held = {one.hash for one in rollout.older if wanted & _port_numbers(one.template)}
    staying = [one.old for one in rollout.eligible if one.old is not None]
    return frozenset((pod.node, rollout.revision.hash) for pod in staying if pod.ready and pod.hash in held)


def host_ports(template: JSONObject) -> Iterator[tuple[int, str]]:
    """The host ports with their containers' names. With hostNetwork, every declared port is one."""
    spec = fields_of(template.get("spec"))
    on_node = spec.get("hostNetwork") is True
    for container in items_of(spec.get("containers")):
        for port in items_of(container.get("ports")):
            claimed = port.get("hostPort") or (on_node and port.get("containerPort"))
            if isinstance(claimed, int) and claimed:
                yield claimed, str(container.get("name"))


def _port_numbers(template: JSONObject) -> set[int]:
    return {number for number, _ in host_ports(template)}
