"""The state annotation of an update in place, in the format of OpenKruise."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from controller.api.base import JSON, View
from controller.api.container import ResourcesView
from controller.api.wellknown import IN_PLACE_STATE_ANNOTATION, IN_PLACE_STATE_LEGACY


class ContainerBefore(View):
    """The status of a container before the update."""

    image_id: str = msgspec.field(default="", name="imageID")
    container_id: str | None = msgspec.field(default=None, name="containerID")
    """The id of the container; None: not noted, as by the controller of OpenKruise."""
    restart_count: int = 0
    image: str = ""
    """The image name in the spec when this container was started; the node may report another name. Empty: not
    known."""


class PreCheck(View):
    containers_required_ready: tuple[str, ...] | None = None


class Superseded(View):
    """The revision and the images that the update has replaced."""

    revision: str = ""
    images: dict[str, str] = msgspec.field(default_factory=dict)
    """The former images of the containers that got another one."""


class InPlaceState(View):
    """The annotation. OpenKruise has neither the last four fields nor those of `ContainerBefore`, except
    `imageID`."""

    revision: str = ""
    update_timestamp: str | None = None
    last_container_statuses: dict[str, ContainerBefore] | None = None
    """The former status of the containers that restart."""
    update_resources: bool = False
    next_container_images: dict[str, str] | None = None
    next_container_ref_metadata: JSON = None
    next_container_resources: dict[str, ResourcesView] | None = None
    pre_check_before_next: PreCheck | None = None
    container_resources: dict[str, ResourcesView] | None = None
    """New resources by container."""
    generation: int = 0
    """The generation of the pod before the resize; 0: not noted. Later changes of cpu and memory are not ours."""
    unfinished_images: dict[str, tuple[str, ...]] | None = None
    """Images that earlier updates asked for and that did not run yet when this one began, by container."""
    superseded: Superseded = Superseded()

    @property
    def replaced(self) -> frozenset[str]:
        """The ids of the containers that the update ended."""
        before = (self.last_container_statuses or {}).values()
        return frozenset(filter(None, (one.container_id for one in before)))


def state_of(annotations: Mapping[str, str] | None) -> InPlaceState | None:
    """The state of a pod with these annotations; None: it has none, or none that can be read."""
    if not annotations:
        return None
    text = annotations.get(IN_PLACE_STATE_ANNOTATION) or annotations.get(IN_PLACE_STATE_LEGACY)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=InPlaceState)
    except (msgspec.DecodeError, RecursionError):
        return None
