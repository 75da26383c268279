"""What is written into a pod about its update in place, an annotation in OpenKruise's format; and the pod that is
read for it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from controller.api.base import JSON, View
from controller.api.container import ContainerStatusView, ContainerView, ResourcesView
from controller.api.gates import PodCondition, ReadinessGateView
from controller.api.meta import ObjectMeta
from controller.api.wellknown import IN_PLACE_STATE_ANNOTATION, IN_PLACE_STATE_LEGACY


class ContainerBefore(View):
    """A container's status before the update."""

    image_id: str = msgspec.field(default="", name="imageID")
    container_id: str | None = msgspec.field(default=None, name="containerID")
    """None: it was not written down; OpenKruise's controller does not."""
    restart_count: int = 0
    image: str = ""
    """The name by which its spec asked for what it runs: the node may know that by another one. Empty: not known."""


class PreCheck(View):
    containers_required_ready: tuple[str, ...] | None = None


class Superseded(View):
    """What the update took the place of."""

    revision: str = ""
    images: dict[str, str] = msgspec.field(default_factory=dict)
    """Of each container that got another one."""


class InPlaceState(View):
    """The annotation. The last four fields are ours, and of containers all but `imageID`."""

    revision: str = ""
    update_timestamp: str | None = None
    last_container_statuses: dict[str, ContainerBefore] | None = None
    """Of the containers that restart."""
    update_resources: bool = False
    next_container_images: dict[str, str] | None = None
    next_container_ref_metadata: JSON = None
    next_container_resources: dict[str, ResourcesView] | None = None
    pre_check_before_next: PreCheck | None = None
    container_resources: dict[str, ResourcesView] | None = None
    """Container to what it is resized to."""
    generation: int = 0
    """Of the pod's spec, as it was before the resize; 0: not told. Who has changed cpu and memory after that is left
    alone."""
    unfinished_images: dict[str, tuple[str, ...]] | None = None
    """Container to the images that earlier updates asked for and had not come to run when this one began."""
    superseded: Superseded = Superseded()

    @property
    def replaced(self) -> frozenset[str]:
        """Ids of the containers that the update ended."""
        before = (self.last_container_statuses or {}).values()
        return frozenset(filter(None, (one.container_id for one in before)))


def state_of(annotations: Mapping[str, str] | None) -> InPlaceState | None:
    """None where there is none, or none that can be read."""
    if not annotations:
        return None
    text = annotations.get(IN_PLACE_STATE_ANNOTATION) or annotations.get(IN_PLACE_STATE_LEGACY)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=InPlaceState)
    except (msgspec.DecodeError, RecursionError):
        return None


class PodDocumentSpec(View):
    containers: tuple[ContainerView, ...] = ()
    readiness_gates: tuple[ReadinessGateView, ...] | None = None


class PodDocumentStatus(View):
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatusView, ...] | None = None


class PodDocument(View):
    """A pod read afresh, with all that is needed to write to the right place in it."""

    metadata: ObjectMeta
    spec: PodDocumentSpec = PodDocumentSpec()
    status: PodDocumentStatus = PodDocumentStatus()
