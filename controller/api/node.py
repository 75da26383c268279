"""Nodes: the views that are decoded, and the record that is cached. Images are in it only if they are pulled in
advance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from controller.api.containers import canonical
from controller.api.names import TAINT_NOT_READY, TAINT_UNREACHABLE
from controller.api.objects import Key, ObjectMeta, Value, View, epoch

ZONE_LABELS: Final = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
"""Labels with the zone of a node, the preferred one first."""


class Taint(View):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpecView(View):
    taints: tuple[Taint, ...] | None = None


class NodeView(View):
    """A node as the API server sends it."""

    metadata: ObjectMeta
    spec: NodeSpecView = NodeSpecView()


class _NodeImage(View):
    names: tuple[str, ...] | None = None


class _NodeStatus(View):
    images: tuple[_NodeImage, ...] | None = None


class NodeWithImagesView(NodeView):
    """A node with the images that its kubelet reports, which may be many."""

    status: _NodeStatus = _NodeStatus()


class Node(Value):
    """A node as it is cached."""

    name: str
    uid: str
    version: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    images: tuple[str, ...] = ()
    """The full names of the images that the kubelet reports, at most 50 by default. Empty if not needed."""
    created: float = 0.0
    """Its creation time (seconds since 1970); 0 if images are not needed."""

    @property
    def key(self) -> Key:
        return Key("", self.name)

    @property
    def zone(self) -> str:
        """The zone; empty if no label has it."""
        return self.labels.get(ZONE_LABELS[0]) or self.labels.get(ZONE_LABELS[1], "")

    @property
    def unreachable(self) -> bool:
        """Whether the control plane has lost contact with the node; pods that are deleted there remain."""
        return any(taint.key == TAINT_UNREACHABLE for taint in self.taints)

    @property
    def not_ready(self) -> bool:
        """Whether no pod starts there for now: it is unreachable, or its kubelet is not ready."""
        return any(taint.key in (TAINT_UNREACHABLE, TAINT_NOT_READY) for taint in self.taints)

    def same_placement(self, other: Node) -> bool:
        """Whether only fields differ that do not matter for placement, as after a heartbeat."""
        return self.labels == other.labels and self.taints == other.taints and self.uid == other.uid


def project(view: NodeView) -> Node:
    meta = view.metadata
    return Node(
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        labels=meta.labels or {},
        taints=view.spec.taints or (),
    )


def project_with_images(view: NodeWithImagesView) -> Node:
    names = (name for image in view.status.images or () for name in image.names or ())
    created = epoch(view.metadata.creation_timestamp) or 0.0
    return replace(project(view), images=tuple(map(canonical, names)), created=created)
