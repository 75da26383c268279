"""Nodes, as far as placement looks at them: name, labels and taints. Where images are pulled in advance, also which
images they have; nothing else is cached."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from controller.api.base import Value, View
from controller.api.image import canonical
from controller.api.meta import Key, ObjectMeta, epoch
from controller.api.wellknown import TAINT_NOT_READY, TAINT_UNREACHABLE

ZONE_LABELS: Final = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
"""The first one that a node has counts."""


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
    """A node with the images that its kubelet reports: decoded only where they are needed, for there may be many."""

    status: _NodeStatus = _NodeStatus()


class Node(Value):
    """A node as it is cached."""

    name: str
    uid: str
    version: str
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    images: tuple[str, ...] = ()
    """Canonical names of those that the kubelet tells of, of which there are fifty at most, the largest; empty where
    nobody asks."""
    created: float = 0.0
    """Seconds since 1970; not told where nobody asks for images."""

    @property
    def key(self) -> Key:
        return Key("", self.name)

    @property
    def zone(self) -> str:
        """Empty where no label tells."""
        labels = self.labels
        return labels.get(ZONE_LABELS[0]) or labels.get(ZONE_LABELS[1], "")

    @property
    def unreachable(self) -> bool:
        """The control plane no longer hears of this node: nothing that we delete there goes away."""
        return any(taint.key == TAINT_UNREACHABLE for taint in self.taints)

    @property
    def silent(self) -> bool:
        """Nothing starts on it for now: its kubelet is not heard, or is not ready."""
        return any(taint.key in (TAINT_UNREACHABLE, TAINT_NOT_READY) for taint in self.taints)

    def same_placement(self, other: Node) -> bool:
        """Whether no DaemonSet could tell the two apart; heartbeats differ only in version."""
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
