"""Pods: the view that is decoded, and the record that is cached.

A record has only the fields that decisions need; pods of one revision share one dict of labels. A field that is
missing here is read by a GET when needed, not added "just in case".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from sys import intern

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
    """A pod as the API server sends it."""

    metadata: ObjectMeta
    spec: PodSpecView = PodSpecView()
    status: PodStatusView = PodStatusView()


class ManagedPodView(PodView):
    """A pod with the managers of its fields."""

    metadata: ManagedMeta


class Pod(NamespacedObject):
    """A pod as it is cached: one of ours, or one without a controller that a selector may match."""

    owner_uid: str
    """The uid of the Advanced DaemonSet that controls it; empty: it has no controller."""
    owner_index: int
    """The index of that owner in `metadata.ownerReferences`; their number if there is no controller."""
    labels: Mapping[str, str]
    finalizers: tuple[str, ...]
    created: float
    node: str
    """The node that it runs on or can only run on; empty: neither is known."""
    bound: bool
    """Whether the scheduler has put it on `node` already."""
    phase: str
    terminating: bool
    """Whether it has a deletionTimestamp."""
    ready: bool
    """Whether its Ready condition and our readiness gates are True, and no container is being restarted by an update
    in place: without a readiness probe, the kubelet calls a pod ready while its program is gone."""
    ready_since: float | None
    """Since when it is ready (seconds since 1970), by its Ready condition or the start of its last container,
    whichever is later; None: not ready, or not known."""
    problem: PodProblem | None = None
    """Why it will not become ready by itself, as far as its status shows; None: nothing is known, or it is ready."""
    failure_message: str = ""
    """The message about a container that cannot start or that ends, during an update in place; else empty."""
    gates: tuple[ReadinessGate, ...] = ()
    """The readiness gates that we set."""
    in_progress: UpdateInProgress | None = None
    """The unfinished part of an update in place; None: there is none."""
    restarted_at: float | None = None
    """When the last container without readiness probe restarted (seconds since 1970, clock of the node); None: none
    did."""
    updated_in_place: bool = False
    """Whether it was ever updated in place, or is being updated."""
    has_node_agent: bool = False
    """Whether the node agent of OpenKruise takes care of its containers."""
    drained: bool = False
    """Whether it would be ready if it were not prepared for its deletion."""
    drained_for_update: bool = False
    """Whether it would be ready if it were not drained for an update in place, which has not begun."""
    held_since: float | None = None
    """When it was prepared for its deletion (seconds since 1970); None: it is not, or the time was not noted."""

    @property
    def hash(self) -> str:
        """The hash of the revision that it was made from; empty: somebody else made it."""
        return self.labels.get(HASH_LABEL, "")

    @property
    def ended(self) -> bool:
        """Whether it is Failed or Succeeded. Ask this first: its Ready condition may still be True."""
        return self.phase in ("Failed", "Succeeded")

    @property
    def adoptable(self) -> bool:
        """Whether a DaemonSet whose selector matches it may adopt it: it has no controller and is a live pod."""
        return not (self.owner_uid or self.terminating or self.ended)

    @property
    def held_by_hook(self) -> bool:
        """Whether it is prepared for its deletion: the preDelete hook was asked to release it."""
        return self.labels.get(LIFECYCLE_STATE_LABEL) == PREPARING_DELETE

    @property
    def marked_not_ready(self) -> bool:
        """Whether it was made not ready for its deletion."""
        return any(gate.marked_not_ready for gate in self.gates)

    @property
    def draining(self) -> bool:
        """Whether it was made not ready for an update in place, begun or to come."""
        return any(gate.draining for gate in self.gates)

    @property
    def gates_to_open(self) -> tuple[ReadinessGate, ...]:
        return tuple(gate for gate in self.gates if gate.to_open)

    @property
    def ready_ignoring_hook(self) -> bool:
        """Whether it is ready, or would be if it were not prepared for its deletion."""
        return self.ready or self.drained


def target_node(spec: PodSpecView) -> str:
    """The node of a bound pod, else the only node that its required affinity names, else ""."""
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
    """One dict for each distinct set of labels, to save memory."""
    return dict(labels)


def project(view: PodView) -> Pod | None:
    """The record of one pod, or None for a pod that another kind of controller owns."""
    meta = view.metadata
    owner = ownership_of(meta)
    if owner is None:
        return None
    status, conditions = view.status, view.status.conditions or ()
    statuses = status.container_statuses or ()
    gates = gates_of(view.spec.readiness_gates, conditions) if view.spec.readiness_gates else ()
    state = state_of(meta.annotations)
    in_progress = None if state is None else _underway(view, state, conditions, statuses)
    ready, ready_since = False, None
    for condition in conditions:
        if condition.type == "Ready" and condition.status == "True":
            ready, ready_since = True, _latest(condition.last_transition_time, statuses)
    unseen = in_progress is not None and in_progress.not_started
    if not all(gate.open for gate in gates) or unseen:
        ready, ready_since = False, None
    marked = any(gate.marked_not_ready for gate in gates)
    held = marked or (meta.labels or {}).get(LIFECYCLE_STATE_LABEL) == PREPARING_DELETE
    return Pod(
        namespace=intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        owner_uid=owner.uid,
        owner_index=owner.index,
        labels=_shared(tuple(sorted((meta.labels or {}).items()))),
        finalizers=meta.finalizers or (),
        created=epoch(meta.creation_timestamp) or 0.0,
        node=intern(target_node(view.spec)),
        bound=bool(view.spec.node_name),
        phase=intern(view.status.phase),
        terminating=meta.deletion_timestamp is not None,
        ready=ready,
        ready_since=ready_since,
        problem=_ailment(status, state.replaced if state is not None else (), ready=ready),
        failure_message=failure_message_of(statuses, state.replaced)
        if state is not None and in_progress is not None
        else "",
        gates=gates,
        in_progress=in_progress,
        restarted_at=_restarted_at(view),
        updated_in_place=state is not None,
        has_node_agent=NODE_AGENT_ANNOTATION in (meta.annotations or ()),
        drained=marked and not unseen and _would_be_ready(gates, conditions),
        drained_for_update=in_progress is None and _is_drained_for_update(gates, conditions),
        held_since=epoch((meta.annotations or {}).get(LIFECYCLE_TIMESTAMP_ANNOTATION)) if held else None,
    )


def _would_be_ready(gates: Sequence[ReadinessGate], conditions: Sequence[PodCondition]) -> bool:
    """Whether its containers are ready, and all our other readiness gates are open."""
    others = all(gate.open or (gate.marked_not_ready and not gate.held_by_others) for gate in gates)
    return others and _are_containers_ready(conditions)


def _is_drained_for_update(gates: Sequence[ReadinessGate], conditions: Sequence[PodCondition]) -> bool:
    draining = [gate.draining for gate in gates if not gate.open]
    return any(draining) and all(draining) and _are_containers_ready(conditions)


def _are_containers_ready(conditions: Sequence[PodCondition]) -> bool:
    return any(one.type == "ContainersReady" and one.status == "True" for one in conditions)


def _underway(
    view: PodView, state: InPlaceState, conditions: Sequence[PodCondition], statuses: Sequence[ContainerStatusView]
) -> UpdateInProgress | None:
    seen = view.status.observed_generation
    observed = seen >= view.metadata.generation if seen else None
    meta, containers = view.metadata, view.spec.containers or ()
    of = (meta.labels or {}).get(HASH_LABEL, "")
    return unfinished_update(
        state, containers, statuses, conditions, of=of, generation=meta.generation, observed=observed
    )


def _latest(since: str | None, statuses: Sequence[ContainerStatusView]) -> float | None:
    """When the pod became ready: `since`, or the start of a container that started later."""
    latest = epoch(since)
    for one in statuses:
        started = _start_of(one)
        if started is not None and latest is not None and started > latest:
            latest = started
    return latest


def _restarted_at(view: PodView) -> float | None:
    """When the last container without a readiness probe was restarted, for any reason."""
    restarted = [one for one in view.status.container_statuses or () if one.restart_count]
    if not restarted:
        return None
    unprobed = {one.name for one in view.spec.containers or () if one.readiness_probe is None}
    starts = [_start_of(one) for one in restarted if one.name in unprobed]
    return max((one for one in starts if one is not None), default=None)


def _start_of(status: ContainerStatusView) -> float | None:
    running = status.state.running if status.state is not None else None
    return epoch(running.started_at) if running is not None else None


def _ailment(status: PodStatusView, replaced: Collection[str], *, ready: bool) -> PodProblem | None:
    """The problem of a pod, if it has one. Succeeded is as bad as Failed: a daemon should not end."""
    if status.phase in ("Failed", "Succeeded"):
        return PodProblem.EVICTED if status.reason == "Evicted" else PodProblem.OTHER
    if ready:
        return None
    if any(one.type == "PodScheduled" and one.status == "False" for one in status.conditions or ()):
        return PodProblem.UNSCHEDULABLE
    statuses = (*(status.init_container_statuses or ()), *(status.container_statuses or ()))
    # the first problem, in the order of the pod: containers wait for the init containers before them
    return next(filter(None, (problem_of_container(one, replaced) for one in statuses)), None)
