"""The Advanced DaemonSet: the view that is decoded, and the record that is cached.

The pod template stays JSON, so that fields that are unknown here reach the pod.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from controller.api import names, template_identity
from controller.api.formats import IntOrPercent
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
from controller.api.selector import LabelSelector


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
    """Selects the nodes that may be updated. None: all."""
    partition: IntOrPercent | None = None
    """The number of pods that stay on the old revision."""
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
    """The phase of a rollout."""

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
    """The record of the rollout of the current revision. Times are RFC 3339."""

    phase: str = ""
    """A `Phase`, or one of a later version."""
    last_transition_time: str | None = None
    """When the phase last changed."""
    start_time: str | None = None
    last_progress_time: str | None = None
    """When more nodes than ever were done, or the target changed. The progress deadline counts from here."""
    nodes_unreachable_since: str | None = None
    """Since when all that is left waits for unreachable nodes. The progress deadline does not count meanwhile."""
    completion_time: str | None = None
    """When all nodes of the target first had an available pod."""
    target: int = 0
    """Nodes that may have the current revision, or could if the rollout were not paused."""
    done: int = 0
    """Nodes of the target with an available pod of the current revision and no old pod beside it."""
    most_done: int = 0
    """The highest `done` since start_time, so that a pod that flaps is no progress."""
    most_updated: int = 0
    """The most nodes since start_time that had a pod of the current revision, available or not."""
    stable_revision: str | None = None
    """Hash of the last revision that was rolled out completely; None: none is recorded."""
    previous_stable_revision: str | None = None
    """Hash of the stable one before it; see `planner.progress.with_stable`. None: not known."""


class Counts(Part):
    """The counts of the status, of nodes."""

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
    """Complete entries: those of others are written back unchanged."""


class DaemonSetView(View):
    """A DaemonSet as the API server sends it."""

    metadata: ManagedMeta
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus | None = None


def _seconds(least: int, most: int) -> Callable[[str], int | None]:
    """A parser of whole numbers from `least` to `most`."""

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
"""Annotations of a DaemonSet that have a default for values that cannot be parsed."""


class DaemonSet(NamespacedObject):
    """A DaemonSet as it is cached."""

    generation: int
    annotations: Mapping[str, str]
    terminating: bool
    spec: DaemonSetSpec
    status: DaemonSetStatus | None
    identity: str
    """The meaning of the template (`template_identity.identity`)."""
    status_writers: StatusWriters = StatusWriters()
    created: float = 0.0
    """Seconds since 1970."""

    @property
    def rolling_update(self) -> RollingUpdate | None:
        """The settings of the rolling update, by default empty; None: the strategy is OnDelete."""
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
        """The preDelete hook; None: none, or one without labels and finalizers, which holds no pod."""
        hook = self.spec.lifecycle.pre_delete if self.spec.lifecycle else None
        return hook if hook is not None and (hook.labels_handler or hook.finalizers_handler) else None

    @property
    def partitioned_scaling(self) -> bool:
        """The field of this name; if it is absent, the annotation of v1alpha1."""
        strategy = self.spec.scale_strategy
        if strategy is not None and strategy.partitioned_scaling is not None:
            return strategy.partitioned_scaling
        return self.annotations.get(names.PROGRESSIVE_ANNOTATION) == "true"

    @property
    def in_place(self) -> bool:
        """Whether pods are updated in place if possible."""
        rolling = self.rolling_update
        return rolling is not None and rolling.rolling_update_type == names.IN_PLACE_IF_POSSIBLE

    @property
    def progress_deadline(self) -> int:
        """Seconds without progress after which a rollout is stalled. They include minReadySeconds, during which no
        progress shows."""
        asked = self._parsed(names.PROGRESS_DEADLINE_ANNOTATION)
        return (asked or names.PROGRESS_DEADLINE_SECONDS) + self.spec.min_ready_seconds

    @property
    def pre_delete_deadline(self) -> int:
        """Seconds after which a pod counts as prepared for its deletion for too long."""
        return self._parsed(names.PRE_DELETE_DEADLINE_ANNOTATION) or names.PRE_DELETE_DEADLINE_SECONDS

    @property
    def in_place_grace(self) -> int:
        """Seconds between making a pod not ready and its update in place."""
        return self._parsed(names.IN_PLACE_GRACE_ANNOTATION) or 0

    @property
    def waits_for_images(self) -> bool:
        """Whether a node is updated only after its new images were pulled in advance. By default only for updates in
        place: there the old container ends before the new image is pulled (docs/design/kubelet.md)."""
        asked = self._parsed(names.PREDOWNLOAD_WAIT_ANNOTATION)
        return self.in_place if asked is None else bool(asked)

    @property
    def recreates_unresized(self) -> bool:
        """Whether a pod whose resize is refused is recreated."""
        return self.annotations.get(names.RESIZE_FALLBACK_ANNOTATION) == "Recreate"

    @property
    def allows_unknown_fields(self) -> bool:
        """Whether pods may be made of a template with fields that the server does not know."""
        return self.annotations.get(names.UNKNOWN_FIELDS_ANNOTATION) == "allow"

    def invalid(self, annotation: str) -> str | None:
        """The value of an annotation if it cannot be parsed, so that the default applies; else None."""
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
