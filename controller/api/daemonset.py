"""The Advanced DaemonSet: the view that is decoded, and the record that is cached. The pod template stays JSON
throughout, so that fields we do not know reach the pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from controller.api import template_identity
from controller.api.formats import IntOrPercent
from controller.api.names import (
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
    UNKNOWN_FIELDS_ANNOTATION,
)
from controller.api.objects import (
    JSONObject,
    ManagedFields,
    NamespacedObject,
    ObjectMeta,
    Part,
    StatusWriters,
    View,
    epoch,
    status_writers,
)
from controller.api.selector import LabelSelector

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
    """Selects nodes by label: only these may be updated. None: all may."""
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
    """Strings for `kubectl get`, where a column cannot show a map or a list."""

    node_selector: str = ""
    containers: str = ""
    images: str = ""
    selector: str = ""


class Phase(StrEnum):
    """The phase of a rollout, in one word; `planner.phase.phase_of` decides it."""

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
    """The record of the rollout of the current revision. Times are RFC 3339 strings; see `meta.epoch`."""

    phase: str = ""
    """A `Phase`; a string, because a later version may know more of them."""
    last_transition_time: str | None = None
    """When the phase last changed."""
    start_time: str | None = None
    """When the rollout of this revision began."""
    last_progress_time: str | None = None
    """When there last was progress: more nodes than ever were done, or another target. The deadline counts from
    here."""
    nodes_unreachable_since: str | None = None
    """Since when everything that is left waits for unreachable nodes; None: it does not. The deadline does not count
    meanwhile."""
    completion_time: str | None = None
    """When all nodes of the target first had an available pod; None: not yet."""
    target: int = 0
    """Nodes that may have the current revision now, or could if the rollout were not paused."""
    done: int = 0
    """Nodes of the target with an available pod of the current revision and no old pod beside it."""
    most_done: int = 0
    """The most that `done` has been since start_time: a pod that gets ready again and again is no progress."""
    most_updated: int = 0
    """The most nodes since start_time that had a pod of the current revision, available or not."""
    stable_revision: str | None = None
    """Hash of the last revision that was rolled out completely; None: none has been, as far as is recorded."""
    previous_stable_revision: str | None = None
    """Hash of the stable one before it; see `planner.stable`. None: not known."""


class Counts(Part):
    """The counts of the status. They count nodes, not pods."""

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
    """Complete entries, because those of others must be written back unchanged."""


class DaemonSetMeta(ObjectMeta):
    managed_fields: tuple[ManagedFields, ...] | None = None


class DaemonSetView(View):
    """A DaemonSet as the API server sends it."""

    metadata: DaemonSetMeta
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus | None = None


class DaemonSet(NamespacedObject):
    """A DaemonSet as it is cached."""

    generation: int
    annotations: Mapping[str, str]
    terminating: bool
    spec: DaemonSetSpec
    status: DaemonSetStatus | None
    """None: nobody has written one yet."""
    identity: str
    """The meaning of the template (`canonical.identity`)."""
    status_writers: StatusWriters = StatusWriters()
    created: float = 0.0
    """Seconds since 1970."""

    @property
    def rolling_update(self) -> RollingUpdate | None:
        """The settings of the rolling update, empty if none are given; None: the strategy is OnDelete."""
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
        """The hook that may hold a pod before its deletion; None: none, or one without labels and finalizers."""
        hook = self.spec.lifecycle.pre_delete if self.spec.lifecycle else None
        return hook if hook is not None and (hook.labels_handler or hook.finalizers_handler) else None

    @property
    def partitioned_scaling(self) -> bool:
        """Whether the field says so; if it is absent, the annotation of v1alpha1."""
        strategy = self.spec.scale_strategy
        if strategy is not None and strategy.partitioned_scaling is not None:
            return strategy.partitioned_scaling
        return self.annotations.get(PROGRESSIVE_ANNOTATION) == "true"

    @property
    def progress_deadline(self) -> int:
        """Seconds without progress after which a rollout counts as stalled: the value of the annotation if it is a
        whole number from 1 to 2147483647, else the default. minReadySeconds are added, because no progress shows
        during that time.
        """
        asked = _whole_seconds(self.annotations.get(PROGRESS_DEADLINE_ANNOTATION, ""))
        return (asked or PROGRESS_DEADLINE_SECONDS) + self.spec.min_ready_seconds

    @property
    def in_place(self) -> bool:
        """Whether pods are updated in place if possible."""
        rolling = self.rolling_update
        return rolling is not None and rolling.rolling_update_type == IN_PLACE_IF_POSSIBLE

    @property
    def waits_for_images(self) -> bool:
        """Whether a node is updated only after its new images were pulled in advance. By default only for updates in
        place: there the old container ends before the new image is pulled (docs/design/kubelet.md)."""
        return _TRUE_OR_FALSE.get(self.annotations.get(PREDOWNLOAD_WAIT_ANNOTATION, ""), self.in_place)

    @property
    def unreadable_wait(self) -> str | None:
        """The text of that annotation if it is neither true nor false, so that the default applies; else None."""
        asked = self.annotations.get(PREDOWNLOAD_WAIT_ANNOTATION)
        return asked if asked is not None and asked not in _TRUE_OR_FALSE else None

    @property
    def in_place_grace(self) -> int:
        """Seconds between making a pod not ready and its update in place; 0 if the annotation cannot be read."""
        asked = _whole_seconds(self.annotations.get(IN_PLACE_GRACE_ANNOTATION, ""))
        return asked if asked <= LONGEST_IN_PLACE_GRACE else 0

    @property
    def unreadable_grace(self) -> str | None:
        """The text of that annotation if it is no number of seconds, so that 0 applies; else None."""
        asked = self.annotations.get(IN_PLACE_GRACE_ANNOTATION)
        return asked if asked is not None and asked != "0" and not self.in_place_grace else None

    @property
    def recreates_unresized(self) -> bool:
        """Whether a pod whose resize is refused is replaced by a new one."""
        return self.annotations.get(RESIZE_FALLBACK_ANNOTATION) == "Recreate"

    @property
    def allows_unknown_fields(self) -> bool:
        """Whether pods may be made of a template with fields that the server does not know."""
        return self.annotations.get(UNKNOWN_FIELDS_ANNOTATION) == "allow"

    @property
    def pre_delete_deadline(self) -> int:
        """Seconds after which a pod counts as prepared for its deletion for too long."""
        return _whole_seconds(self.annotations.get(PRE_DELETE_DEADLINE_ANNOTATION, "")) or PRE_DELETE_DEADLINE_SECONDS

    @property
    def unreadable_deadline(self) -> str | None:
        """The text of the annotation if it is no number of seconds, so that ten minutes apply; else None."""
        asked = self.annotations.get(PROGRESS_DEADLINE_ANNOTATION)
        return asked if asked is not None and not _whole_seconds(asked) else None


def _whole_seconds(text: str) -> int:
    """The whole number of seconds in `text`; 0 if it is no number, or more than a deadline may have."""
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
        terminating=meta.deletion_timestamp is not None,
        spec=view.spec,
        status=view.status,
        identity=template_identity.identity(view.spec.template),
        status_writers=status_writers(meta.managed_fields or ()),
        created=epoch(meta.creation_timestamp) or 0.0,
    )
