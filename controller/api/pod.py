"""Pods, decoded and cached. Memory grows with each cached field, so fields that no decision needs are read by GET."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from sys import intern
from typing import Final

import msgspec

from controller.api.containers import (
    ContainerStatusView,
    ContainerView,
    PodProblem,
    failure_message_of,
    problem_of_container,
)
from controller.api.in_place import InPlaceState, UpdateInProgress, state_of, unfinished_update
from controller.api.names import (
    HASH_LABEL,
    KRUISE_POD_READY,
    LIFECYCLE_STATE_LABEL,
    LIFECYCLE_TIMESTAMP_ANNOTATION,
    NODE_AGENT_ANNOTATION,
    PREPARING_DELETE,
)
from controller.api.objects import ManagedMeta, NamespacedObject, ObjectMeta, View, epoch, ownership_of
from controller.api.readiness_gates import PodCondition, ReadinessGate, ReadinessGateView, gates_of
from controller.api.selector import Requirement


class NodeTerm(View):
    match_expressions: tuple[Requirement, ...] | None = None
    match_fields: tuple[Requirement, ...] | None = None


class NodeSelectorView(View):
    node_selector_terms: tuple[NodeTerm, ...] | None = None


class NodeAffinityView(View):
    required: NodeSelectorView | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class AffinityView(View):
    node_affinity: NodeAffinityView | None = None


class PodSpecView(View):
    node_name: str = ""
    affinity: AffinityView | None = None
    containers: tuple[ContainerView, ...] | None = None
    readiness_gates: tuple[ReadinessGateView, ...] | None = None
    host_network: bool = False


class PodStatusView(View):
    phase: str = ""
    reason: str = ""
    message: str = ""
    observed_generation: int = 0
    conditions: tuple[PodCondition, ...] | None = None
    container_statuses: tuple[ContainerStatusView, ...] | None = None
    init_container_statuses: tuple[ContainerStatusView, ...] | None = None


class PodView(View):
    metadata: ObjectMeta
    spec: PodSpecView = PodSpecView()
    status: PodStatusView = PodStatusView()


class ManagedPodView(PodView):
    metadata: ManagedMeta


ENDED: Final = ("Failed", "Succeeded")
"""Phases in which a pod does not run any more."""


class Pod(NamespacedObject):
    """A cached pod, controlled by an Advanced DaemonSet or by nothing."""

    owner_uid: str
    owner_index: int
    labels: Mapping[str, str]
    finalizers: tuple[str, ...]
    created: float
    node: str
    """The node to which it is bound, or the only one it can run on; empty if not known."""
    bound: bool
    phase: str
    terminating: bool
    ready: bool
    """Whether Ready and our readiness gates are True and no in-place update is restarting a container: without a
    readiness probe, the kubelet reports a pod as ready while its program is gone."""
    ready_since: float | None
    """The later of its Ready transition and its last container start (seconds since 1970); None if it is not ready or
    the time is not known."""
    unready_since: float | None = None
    """Its Ready transition, or its creation if there is none (seconds since 1970); None while it is ready."""
    restarts: int = 0
    """The restarts of the container that restarted most often; after an update in place, those since then."""
    problem: PodProblem | None = None
    """Why it will not become ready by itself, as far as its status shows."""
    failure_message: str = ""
    """During an in-place update: why a container cannot start or has failed."""
    gates: tuple[ReadinessGate, ...] = ()
    in_progress: UpdateInProgress | None = None
    restarted_at: float | None = None
    """When a container without readiness probe last restarted, in seconds since 1970 by the node's clock."""
    updated_at: float | None = None
    """When the last in-place update began (seconds since 1970, 0 if unreadable); None: none ever did."""
    has_node_agent: bool = False
    """Whether the OpenKruise node agent manages its containers."""
    drained: bool = False
    """Whether only its preparation for deletion keeps it from being ready, or did so until the kubelet notices."""
    drained_for_update: bool = False
    """Whether only an in-place update that has not begun keeps it from being ready."""
    held_since: float | None = None
    """When it was prepared for deletion (seconds since 1970); None if it was not, or the time is not recorded."""

    @property
    def hash(self) -> str:
        """The revision hash; empty if another client created the pod."""
        return self.labels.get(HASH_LABEL, "")

    @property
    def updated_in_place(self) -> bool:
        """Whether an in-place update has ever begun."""
        return self.updated_at is not None

    @property
    def updated(self) -> float:
        """When it was made or updated in place to its revision (seconds since 1970)."""
        return self.created if self.updated_at is None else self.updated_at

    @property
    def ended(self) -> bool:
        """Whether it is Failed or Succeeded; its Ready condition may still be True."""
        return self.phase in ENDED

    @property
    def adoptable(self) -> bool:
        """Whether a DaemonSet whose selector matches may adopt it."""
        return not (self.owner_uid or self.terminating or self.ended)

    @property
    def held_by_hook(self) -> bool:
        """Whether it is prepared for deletion and the preDelete hook was asked to release it."""
        return self.labels.get(LIFECYCLE_STATE_LABEL) == PREPARING_DELETE

    @property
    def marked_not_ready(self) -> bool:
        return any(gate.marked_not_ready for gate in self.gates)

    @property
    def draining(self) -> bool:
        """Whether it was marked not ready for an in-place update, begun or not."""
        return any(gate.draining for gate in self.gates)

    @property
    def gates_to_open(self) -> tuple[ReadinessGate, ...]:
        return tuple(gate for gate in self.gates if gate.to_open)

    @property
    def ready_ignoring_hook(self) -> bool:
        return self.ready or self.drained


def project(view: PodView) -> Pod | None:
    """Returns None if another kind of controller owns the pod."""
    meta = view.metadata
    if (owner := ownership_of(meta)) is None:
        return None
    status, conditions = view.status, view.status.conditions or ()
    labels, statuses = meta.labels or {}, status.container_statuses or ()
    gates = gates_of(view.spec.readiness_gates, conditions) if view.spec.readiness_gates else ()
    state = state_of(meta.annotations)
    observed = status.observed_generation >= meta.generation if status.observed_generation else None
    in_progress = None if state is None else unfinished_update_of(view, state, observed=observed)
    replaced = () if state is None else state.replaced
    not_started = in_progress is not None and in_progress.not_started
    ready, containers_ready, since, lost = _readiness(conditions, meta.creation_timestamp)
    closed = [gate for gate in gates if not gate.open]
    ready = ready and not not_started and not closed
    marked, lost_at = any(gate.marked_not_ready for gate in gates), epoch(lost) or 0.0
    reopened = not ready and any(gate.type == KRUISE_POD_READY and (gate.since or 0.0) >= lost_at for gate in gates)
    only_marked = all(gate.marked_not_ready and not gate.held_by_others for gate in closed)
    only_draining = bool(closed) and all(gate.draining for gate in closed)
    held = marked or labels.get(LIFECYCLE_STATE_LABEL) == PREPARING_DELETE
    return Pod(
        namespace=intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        owner_uid=owner.uid,
        owner_index=owner.index,
        labels=_shared(tuple(sorted(labels.items()))),
        finalizers=meta.finalizers or (),
        created=epoch(meta.creation_timestamp) or 0.0,
        node=intern(target_node(view.spec)),
        bound=bool(view.spec.node_name),
        phase=intern(status.phase),
        terminating=meta.deletion_timestamp is not None,
        ready=ready,
        ready_since=_latest(since, statuses) if ready else None,
        unready_since=None if ready else epoch(lost),
        restarts=max((status.restart_count - _before(status, state) for status in statuses), default=0),
        problem=_problem(status, replaced, ready=ready),
        failure_message=failure_message_of(statuses, replaced) if in_progress is not None else "",
        gates=gates,
        in_progress=in_progress,
        restarted_at=_restarted_at(view),
        updated_at=None if state is None else epoch(state.update_timestamp) or 0.0,
        has_node_agent=NODE_AGENT_ANNOTATION in (meta.annotations or ()),
        drained=(marked or reopened) and containers_ready and not not_started and only_marked,
        drained_for_update=in_progress is None and containers_ready and only_draining,
        held_since=epoch((meta.annotations or {}).get(LIFECYCLE_TIMESTAMP_ANNOTATION)) if held else None,
    )


def _readiness(conditions: Iterable[PodCondition], created: str | None) -> tuple[bool, bool, str | None, str | None]:
    """Whether the pod and its containers are Ready, and since when the pod is, or is not."""
    ready, containers_ready, since, lost = False, False, None, created
    for condition in conditions:
        if condition.status == "True" and condition.type == "Ready":
            ready, since = True, condition.last_transition_time
        elif condition.type == "Ready":
            lost = condition.last_transition_time or lost
        elif condition.status == "True" and condition.type == "ContainersReady":
            containers_ready = True
    return ready, containers_ready, since, lost


def unfinished_update_of(
    view: PodView, state: InPlaceState, *, observed: bool | None = None
) -> UpdateInProgress | None:
    """The unfinished part of an in-place update. `observed` is whether the kubelet has seen this generation."""
    meta, status = view.metadata, view.status
    return unfinished_update(
        state,
        view.spec.containers or (),
        status.container_statuses or (),
        status.conditions or (),
        of=(meta.labels or {}).get(HASH_LABEL, ""),
        generation=meta.generation,
        observed=observed,
    )


def target_node(spec: PodSpecView) -> str:
    """The node to which a pod is bound, or else the only one that its required affinity names, or ""."""
    if spec.node_name:
        return spec.node_name
    affinity = spec.affinity and spec.affinity.node_affinity
    required = affinity and affinity.required
    for term in (required and required.node_selector_terms) or ():
        for field in term.match_fields or ():
            values = field.values or ()
            if field.key == "metadata.name" and field.operator == "In" and len(values) == 1:
                return values[0]
    return ""


@lru_cache(maxsize=20_000)  # a cluster has one set for each revision
def _shared(labels: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """One dict per distinct set of labels, to save memory."""
    return dict(labels)


def _latest(since: str | None, statuses: Sequence[ContainerStatusView]) -> float | None:
    latest = epoch(since)
    for status in statuses:
        started = epoch(status.running.started_at) if status.running is not None else None
        if started is not None and latest is not None and started > latest:
            latest = started
    return latest


def _before(status: ContainerStatusView, state: InPlaceState | None) -> int:
    """The restarts of a container before its last update in place; all of them if that recorded no number."""
    if state is None:
        return 0
    return min((state.restart_counts or {}).get(status.name, status.restart_count), status.restart_count)


def _restarted_at(view: PodView) -> float | None:
    restarted = [status for status in view.status.container_statuses or () if status.restart_count]
    if not restarted:
        return None
    unprobed = {container.name for container in view.spec.containers or () if container.readiness_probe is None}
    starts = (
        epoch(status.running.started_at)
        for status in restarted
        if status.name in unprobed and status.running is not None
    )
    return max((start for start in starts if start is not None), default=None)


def _problem(status: PodStatusView, replaced: Collection[str], *, ready: bool) -> PodProblem | None:
    """Succeeded is a problem like Failed, as a daemon should not end."""
    if status.phase in ("Failed", "Succeeded"):
        return PodProblem.EVICTED if status.reason == "Evicted" else PodProblem.OTHER
    if ready:
        return None
    if any(condition.type == "PodScheduled" and condition.status == "False" for condition in status.conditions or ()):
        return PodProblem.UNSCHEDULABLE
    statuses = (*(status.init_container_statuses or ()), *(status.container_statuses or ()))
    # the first in the order of the pod: containers wait for the init containers before them
    return next(filter(None, (problem_of_container(container, replaced) for container in statuses)), None)
