"""The Advanced DaemonSet, decoded and cached. Its pod template stays JSON, so that unknown fields reach the pod."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from controller.api import names, template_identity
from controller.api.formats import IntOrPercent, seconds
from controller.api.objects import (
    JSONObject,
    ManagedMeta,
    NamespacedObject,
    Part,
    StatusWriters,
    View,
    epoch,
    status_writers,
)
from controller.api.selector import LabelSelector, Requirement


class LifecycleHook(View):
    labels_handler: dict[str, str] | None = None
    finalizers_handler: frozenset[str] | None = None
    mark_pod_not_ready: bool = False


class Lifecycle(View):
    pre_delete: LifecycleHook | None = None


class OrderRule(View):
    """One rule of the update order: nodes that match come first, or nodes are grouped by a label's value."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[Requirement, ...] | None = None
    group_by: str = ""


class RolloutStep(View):
    nodes: IntOrPercent = "100%"
    """Nodes that may hold the current revision: a number, or a percentage of those that the selector allows."""
    soak: str = ""
    """How long the step must be reached without interruption, such as `1h30m`."""
    approval: str = ""
    """`Required`: the next step needs the annotation `kruise-ds/approve`."""

    @property
    def soak_seconds(self) -> float:
        """Raises ValueError for a malformed `soak`."""
        return seconds(self.soak) if self.soak else 0.0


class Check(View):
    name: str = ""
    query: str = ""
    """PromQL that returns no series while all is well, with the variables of `planner.checks`."""


class OnFailure(View):
    unavailable_nodes: IntOrPercent | None = None
    """How many updated nodes without an available pod abort the rollout; None: they do not."""
    after: str = ""
    """How long they must be without one, such as `5m`; empty: the default."""
    restarts: int | None = None
    """How many restarts of one container abort the rollout; None: restarts do not."""
    action: str = ""


class Topology(View):
    key: str = ""
    """The node label whose values are the failure domains."""
    max_unavailable: IntOrPercent | None = None
    """Number or percentage of a domain's nodes; None: no limit."""
    max_domains: int | None = None


class UnreachableNodes(View):
    leave_out: IntOrPercent | None = None
    """Number or percentage of unreachable nodes that a rollout does not wait for."""


class RollingUpdate(View):
    rolling_update_type: str = ""
    max_unavailable: IntOrPercent | None = None
    max_surge: IntOrPercent | None = None
    selector: LabelSelector | None = None
    """Selects the nodes that may be updated; None selects all."""
    partition: IntOrPercent | None = None
    """Number or percentage of pods that stay on the old revision."""
    paused: bool = False
    order: tuple[OrderRule, ...] = ()
    topology: Topology | None = None
    unreachable_nodes: UnreachableNodes | None = None
    steps: tuple[RolloutStep, ...] = ()
    on_failure: OnFailure | None = None
    checks: tuple[Check, ...] = ()


class UpdateStrategy(View):
    type: str = ""
    rolling_update: RollingUpdate | None = None


class ScaleStrategy(View):
    partitioned_scaling: bool | None = None


class DaemonSetSpec(View):
    selector: LabelSelector = LabelSelector()
    template: JSONObject = msgspec.field(default_factory=dict)
    update_strategy: UpdateStrategy = UpdateStrategy()
    min_ready_seconds: int = 0
    burst_replicas: IntOrPercent | None = None
    revision_history_limit: int | None = None
    lifecycle: Lifecycle | None = None
    scale_strategy: ScaleStrategy | None = None

    @property
    def history_limit(self) -> int:
        return 10 if self.revision_history_limit is None else self.revision_history_limit


class Columns(Part):
    """Strings for the columns of `kubectl get`, which cannot show a map or a list."""

    node_selector: str = ""
    containers: str = ""
    images: str = ""
    selector: str = ""
    step: str | None = None
    """Such as `2/3`; None without steps."""


class Phase(StrEnum):
    PENDING = "Pending"
    PROGRESSING = "Progressing"
    SOAKING = "Soaking"
    AWAITING_APPROVAL = "AwaitingApproval"
    HELD = "Held"
    PAUSED = "Paused"
    ABORTED = "Aborted"
    STALLED = "Stalled"
    MANUAL = "Manual"
    DEGRADED = "Degraded"
    HEALTHY = "Healthy"
    TERMINATING = "Terminating"


MOST_UNAVAILABLE_BEFORE = 200


class CheckState(StrEnum):
    FAILING = "Failing"
    """It returns series."""
    UNANSWERED = "Unanswered"


class CheckRecord(Part):
    """A check of the open step that does not pass."""

    name: str
    state: str
    """A `CheckState`, or one of a later version."""
    since: str | None = None
    """RFC 3339."""
    message: str = ""
    """The series that it returned first, or why it has no answer."""


class Rollout(Part):
    """The rollout of the current revision. Times are RFC 3339."""

    phase: str = ""
    """A `Phase`, or one of a later version."""
    last_transition_time: str | None = None
    start_time: str | None = None
    last_progress_time: str | None = None
    """When `most_done` or `most_updated` last grew, the target changed, a check was answered again, or a phase with a
    deadline began. The progress deadline counts from here."""
    nodes_unreachable_since: str | None = None
    """Since when only unreachable nodes remain, during which the progress deadline is suspended."""
    completion_time: str | None = None
    """When every target node first had an available pod."""
    target: int = 0
    """Nodes that may run the current revision, or could if the rollout were not paused."""
    done: int = 0
    """Target nodes with an available pod of the current revision and no old pod."""
    most_done: int = 0
    """The highest `done` since start_time, so that a flapping pod does not count as progress."""
    most_updated: int = 0
    """The most nodes since start_time with a pod of the current revision, available or not."""
    step: int | None = None
    """The step of this rollout, from 1; None without steps."""
    steps: int | None = None
    step_reached_time: str | None = None
    """Since when the step is reached without interruption; None: it is not."""
    checks: tuple[CheckRecord, ...] | None = None
    """The checks that do not pass, in the order of the spec; None: all do, or none is evaluated."""
    aborted_revision: str | None = None
    """The hash of this rollout's revision, if it is aborted."""
    aborted_message: str | None = None
    """What failed then."""
    retried: str | None = None
    """The value of the annotation `kruise-ds/retry` for which this revision was last tried again."""
    left_out: int = 0
    """Unreachable nodes that the rollout does not wait for."""
    stable_revision: str | None = None
    """Hash of the last revision that was fully rolled out; None if not recorded."""
    previous_stable_revision: str | None = None
    """Hash of the stable revision before that (`planner.progress.with_stable`); None if not known."""
    unavailable_before: tuple[str, ...] | None = None
    """Nodes without an available pod since before their update, which is therefore not the cause. At most
    `MOST_UNAVAILABLE_BEFORE`; None unless a field of the spec depends on it."""

    def is_past(self, steps: int) -> bool:
        """Whether the last step is over; `steps`: the number of steps in the spec."""
        return self.completion_time is not None and (self.step or 1) >= steps


class Counts(Part):
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    number_misscheduled: int = 0
    number_ready: int = 0
    updated_number_scheduled: int = 0
    number_available: int = 0
    number_unavailable: int = 0


class DaemonSetStatus(Counts):
    observed_generation: int = 0
    collision_count: int | None = None
    update_revision: str = ""
    daemon_set_hash: str = ""
    columns: Columns = Columns()
    rollout: Rollout | None = None
    conditions: tuple[JSONObject, ...] | None = None
    """Complete entries, so that those of other writers are written back unchanged."""


def rollout_of(status: DaemonSetStatus | None) -> Rollout:
    """`status.rollout`; an empty record if there is none."""
    return (status.rollout if status is not None else None) or Rollout()


class DaemonSetView(View):
    metadata: ManagedMeta
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus | None = None


def _seconds(least: int, most: int) -> Callable[[str], int | None]:
    def parse(text: str) -> int | None:
        plain = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
        return int(text) if plain and least <= int(text) <= most else None

    return parse


_PARSERS: Final[Mapping[str, Callable[[str], int | None]]] = {
    names.PROGRESS_DEADLINE_ANNOTATION: _seconds(1, names.LONGEST_PROGRESS_DEADLINE),
    names.PRE_DELETE_DEADLINE_ANNOTATION: _seconds(1, names.LONGEST_PROGRESS_DEADLINE),
    names.IN_PLACE_GRACE_ANNOTATION: _seconds(0, names.LONGEST_IN_PLACE_GRACE),
    names.PREDOWNLOAD_WAIT_ANNOTATION: {"true": True, "false": False}.get,
}
"""Parsers of annotations; each returns None for a value that cannot be used, so that the default applies."""


class DaemonSet(NamespacedObject):
    generation: int
    annotations: Mapping[str, str]
    terminating: bool
    spec: DaemonSetSpec
    status: DaemonSetStatus | None
    identity: str
    status_writers: StatusWriters = StatusWriters()
    created: float = 0.0
    """In seconds since 1970."""
    rolled_back: str = ""
    """The hash of the aborted revision that the stable template replaces; see `failure.effective_daemonset`."""

    @property
    def rolling_update(self) -> RollingUpdate | None:
        """The rolling update settings, empty by default; None if the strategy is OnDelete."""
        strategy = self.spec.update_strategy
        return None if strategy.type == "OnDelete" else strategy.rolling_update or RollingUpdate()

    @property
    def paused(self) -> bool:
        return self.rolling_update is not None and self.rolling_update.paused

    @property
    def conditions(self) -> tuple[JSONObject, ...]:
        return (self.status.conditions if self.status is not None else None) or ()

    @property
    def pre_delete(self) -> LifecycleHook | None:
        """The preDelete hook; None without labels and finalizers, as it then holds no pod."""
        hook = self.spec.lifecycle.pre_delete if self.spec.lifecycle else None
        return hook if hook is not None and (hook.labels_handler or hook.finalizers_handler) else None

    @property
    def partitioned_scaling(self) -> bool:
        """spec.scaleStrategy.partitionedScaling or, if unset, the v1alpha1 annotation."""
        strategy = self.spec.scale_strategy
        if strategy is not None and strategy.partitioned_scaling is not None:
            return strategy.partitioned_scaling
        return self.annotations.get(names.PROGRESSIVE_ANNOTATION) == "true"

    @property
    def in_place(self) -> bool:
        rolling = self.rolling_update
        return rolling is not None and rolling.rolling_update_type == names.IN_PLACE_IF_POSSIBLE

    @property
    def progress_deadline(self) -> int:
        """Seconds without progress until a rollout is stalled. Includes minReadySeconds, which show none."""
        asked = self._parsed(names.PROGRESS_DEADLINE_ANNOTATION)
        return (asked or names.PROGRESS_DEADLINE_SECONDS) + self.spec.min_ready_seconds

    @property
    def pre_delete_deadline(self) -> int:
        return self._parsed(names.PRE_DELETE_DEADLINE_ANNOTATION) or names.PRE_DELETE_DEADLINE_SECONDS

    @property
    def in_place_grace(self) -> int:
        return self._parsed(names.IN_PLACE_GRACE_ANNOTATION) or 0

    @property
    def waits_for_images(self) -> bool:
        """Whether nodes wait for predownloaded images. By default only for in-place updates, which stop the old
        container before the new image is pulled (docs/design/kubelet.md)."""
        asked = self._parsed(names.PREDOWNLOAD_WAIT_ANNOTATION)
        return self.in_place if asked is None else bool(asked)

    @property
    def recreates_unresized(self) -> bool:
        return self.annotations.get(names.RESIZE_FALLBACK_ANNOTATION) == "Recreate"

    @property
    def allows_unknown_fields(self) -> bool:
        return self.annotations.get(names.UNKNOWN_FIELDS_ANNOTATION) == "allow"

    def invalid(self, annotation: str) -> str | None:
        """The value of an annotation that cannot be parsed, so that its default applies; otherwise None."""
        return self.annotations.get(annotation) if self._parsed(annotation) is None else None

    def _parsed(self, annotation: str) -> int | None:
        text = self.annotations.get(annotation)
        return None if text is None else _PARSERS[annotation](text)


def project(view: DaemonSetView) -> DaemonSet:
    meta = view.metadata
    return DaemonSet(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        generation=meta.generation,
        annotations=meta.annotations or {},
        terminating=meta.deletion_timestamp is not None,
        spec=view.spec,
        status=view.status,
        identity=template_identity.identity(view.spec.template),
        status_writers=status_writers(meta.managed_fields or ()),
        created=epoch(meta.creation_timestamp) or 0.0,
    )
