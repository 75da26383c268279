"""The Advanced DaemonSet itself. The pod template stays JSON from end to end: what we do not know, travels."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from controller.api import canonical
from controller.api.base import JSONObject, Part, View
from controller.api.managed import ManagedFields, StatusWriters, status_writers
from controller.api.meta import Named, ObjectMeta, epoch
from controller.api.number import IntOrPercent
from controller.api.selector import LabelSelector
from controller.api.wellknown import (
    IN_PLACE_GRACE_ANNOTATION,
    IN_PLACE_IF_POSSIBLE,
    LONGEST_IN_PLACE_GRACE,
    LONGEST_PROGRESS_DEADLINE,
    PRE_DELETE_DEADLINE_ANNOTATION,
    PRE_DELETE_DEADLINE_SECONDS,
    PREDOWNLOAD_WAIT_ANNOTATION,
    PROGRESS_DEADLINE_ANNOTATION,
    PROGRESS_DEADLINE_SECONDS,
    PROGRESSIVE_ANNOTATION,
    RESIZE_FALLBACK_ANNOTATION,
)

_TRUE_OR_FALSE = {"true": True, "false": False}


class LifecycleHook(View):
    labels_handler: dict[str, str] | None = None
    finalizers_handler: frozenset[str] | None = None
    mark_pod_not_ready: bool = False


class Lifecycle(View):
    pre_delete: LifecycleHook | None = None


class RollingUpdate(View):
    rolling_update_type: str = ""
    max_unavailable: IntOrPercent | None = None
    max_surge: IntOrPercent | None = None
    selector: LabelSelector | None = None
    """Over node labels: which nodes may be updated."""
    partition: IntOrPercent | None = None
    """How many pods stay on the old revision."""
    paused: bool = False


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
        """How many older revisions are kept."""
        return 10 if self.revision_history_limit is None else self.revision_history_limit


class Columns(Part):
    """What `kubectl get` prints where a column cannot render a map or a list."""

    node_selector: str = ""
    containers: str = ""
    images: str = ""
    selector: str = ""


class Phase(StrEnum):
    """How an update stands, in one word; `planner.phase.phase_of` says when it is which."""

    PENDING = "Pending"
    PROGRESSING = "Progressing"
    HELD = "Held"
    PAUSED = "Paused"
    STALLED = "Stalled"
    MANUAL = "Manual"
    DEGRADED = "Degraded"
    HEALTHY = "Healthy"
    TERMINATING = "Terminating"


class Rollout(Part):
    """How the update to the current revision stands. Times are RFC 3339 strings; see `meta.epoch`."""

    phase: str = ""
    """A `Phase`; a string, because a later version may know more of them."""
    last_transition_time: str | None = None
    """When the phase last changed."""
    start_time: str | None = None
    """When this revision became the one to roll out."""
    last_progress_time: str | None = None
    """The deadline counts from here: more nodes than ever were done, or what is to be done changed."""
    completion_time: str | None = None
    """When all nodes of the target first had an available pod; None until then."""
    target: int = 0
    """Nodes that may have the current revision now; a pause takes nothing away."""
    done: int = 0
    """Of these, nodes with an available pod of it and no old pod beside it."""
    most_done: int = 0
    """The most that `done` has been since start_time: a pod that gets ready again and again is no progress."""
    most_updated: int = 0
    """The most nodes since start_time that had a pod of the current revision, available or not."""


class Counts(Part):
    """The numbers of the status. They are of nodes, not of pods."""

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
    """Whole, because others keep theirs here too and get them back as they were."""


class DaemonSetMeta(ObjectMeta):
    managed_fields: tuple[ManagedFields, ...] | None = None


class DaemonSetView(View):
    """A DaemonSet as the API server sends it."""

    metadata: DaemonSetMeta
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus | None = None


class DaemonSet(Named):
    """A DaemonSet as it is cached."""

    generation: int
    annotations: dict[str, str]
    dying: bool
    spec: DaemonSetSpec
    status: DaemonSetStatus | None
    """None until somebody has written one."""
    identity: str
    """Meaning of the template (`canonical.identity`)."""
    status_writers: StatusWriters = StatusWriters()
    created: float = 0.0
    """Seconds since 1970."""

    @property
    def rolling_update(self) -> RollingUpdate | None:
        """The rolling update's settings, empty ones where none are given; None for OnDelete."""
        strategy = self.spec.update_strategy
        if strategy.type == "OnDelete":
            return None
        return strategy.rolling_update or RollingUpdate()

    @property
    def paused(self) -> bool:
        return self.rolling_update is not None and self.rolling_update.paused

    @property
    def conditions(self) -> tuple[JSONObject, ...]:
        return (self.status.conditions if self.status is not None else None) or ()

    @property
    def pre_delete(self) -> LifecycleHook | None:
        """The hook that may hold a pod back from deletion; None where it has neither labels nor finalizers."""
        hook = self.spec.lifecycle.pre_delete if self.spec.lifecycle else None
        return hook if hook is not None and (hook.labels_handler or hook.finalizers_handler) else None

    @property
    def partitioned_scaling(self) -> bool:
        """The field, and only where it is absent the annotation of v1alpha1."""
        strategy = self.spec.scale_strategy
        if strategy is not None and strategy.partitioned_scaling is not None:
            return strategy.partitioned_scaling
        return self.annotations.get(PROGRESSIVE_ANNOTATION) == "true"

    @property
    def progress_deadline(self) -> int:
        """Seconds that may pass without progress before a rollout counts as stalled: those of the annotation, if it
        has a whole number from 1 to 2147483647, and minReadySeconds, during which nothing can be seen to succeed.
        """
        asked = _whole_seconds(self.annotations.get(PROGRESS_DEADLINE_ANNOTATION, ""))
        return (asked or PROGRESS_DEADLINE_SECONDS) + self.spec.min_ready_seconds

    @property
    def in_place(self) -> bool:
        """Whether pods are updated in place where that is possible."""
        rolling = self.rolling_update
        return rolling is not None and rolling.rolling_update_type == IN_PLACE_IF_POSSIBLE

    @property
    def waits_for_images(self) -> bool:
        """Whether a node is updated only once the images that go ahead of the rollout are there. In place the old
        container ends before the new image is pulled, so there it is the rule."""
        return _TRUE_OR_FALSE.get(self.annotations.get(PREDOWNLOAD_WAIT_ANNOTATION, ""), self.in_place)

    @property
    def unreadable_wait(self) -> str | None:
        """What that annotation says where it is neither true nor false, and the rule holds; None otherwise."""
        asked = self.annotations.get(PREDOWNLOAD_WAIT_ANNOTATION)
        return asked if asked is not None and asked not in _TRUE_OR_FALSE else None

    @property
    def in_place_grace(self) -> int:
        """Seconds between "not ready" and the change in place; 0 where the annotation says nothing readable."""
        asked = _whole_seconds(self.annotations.get(IN_PLACE_GRACE_ANNOTATION, ""))
        return asked if asked <= LONGEST_IN_PLACE_GRACE else 0

    @property
    def unreadable_grace(self) -> str | None:
        """What that annotation says where it is no number of seconds, and none are waited; None otherwise."""
        asked = self.annotations.get(IN_PLACE_GRACE_ANNOTATION)
        return asked if asked is not None and asked != "0" and not self.in_place_grace else None

    @property
    def recreates_unresized(self) -> bool:
        """Whether a pod whose resize is refused is replaced by a new one."""
        return self.annotations.get(RESIZE_FALLBACK_ANNOTATION) == "Recreate"

    @property
    def pre_delete_deadline(self) -> int:
        """Seconds after which somebody should ask why a pod is still prepared for its deletion."""
        return _whole_seconds(self.annotations.get(PRE_DELETE_DEADLINE_ANNOTATION, "")) or PRE_DELETE_DEADLINE_SECONDS

    @property
    def unreadable_deadline(self) -> str | None:
        """What the annotation says where it is no number of seconds, and ten minutes are taken; None otherwise."""
        asked = self.annotations.get(PROGRESS_DEADLINE_ANNOTATION)
        return asked if asked is not None and not _whole_seconds(asked) else None


def _whole_seconds(text: str) -> int:
    """0 where it is none that a deadline can have."""
    plain = text.isascii() and text.isdecimal() and len(text) <= len(str(LONGEST_PROGRESS_DEADLINE))
    return int(text) if plain and int(text) <= LONGEST_PROGRESS_DEADLINE else 0


def project(view: DaemonSetView) -> DaemonSet:
    meta = view.metadata
    return DaemonSet(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        generation=meta.generation,
        annotations=meta.annotations or {},
        dying=meta.deletion_timestamp is not None,
        spec=view.spec,
        status=view.status,
        identity=canonical.identity(view.spec.template),
        status_writers=status_writers(meta.managed_fields or ()),
        created=epoch(meta.creation_timestamp) or 0.0,
    )
