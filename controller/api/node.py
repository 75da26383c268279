"""Nodes as decoded and as cached, with images only if some are predownloaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from controller.api.containers import canonical
from controller.api.names import TAINT_NOT_READY, TAINT_UNREACHABLE
from controller.api.objects import Key, ObjectMeta, Value, View, epoch

ZONE_LABELS: Final = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")


class Taint(View):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpecView(View):
    taints: tuple[Taint, ...] | None = None


class NodeView(View):
    metadata: ObjectMeta
    spec: NodeSpecView = NodeSpecView()


class _NodeImage(View):
    names: tuple[str, ...] | None = None


class _NodeStatus(View):
    images: tuple[_NodeImage, ...] | None = None


class NodeWithImagesView(NodeView):
    status: _NodeStatus = _NodeStatus()


class Node(Value):
    name: str
    uid: str
    version: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    images: tuple[str, ...] = ()
    """Full names of the images that the kubelet reports (at most 50 by default); empty if not needed."""
    terminating: bool = False
    created: float = 0.0
    """In seconds since 1970."""

    @property
    def key(self) -> Key:
        return Key("", self.name)

    @property
    def zone(self) -> str:
        return self.labels.get(ZONE_LABELS[0]) or self.labels.get(ZONE_LABELS[1], "")

    @property
    def unreachable(self) -> bool:
        """Whether the control plane has lost contact with the node; pods deleted there remain."""
        return any(taint.key == TAINT_UNREACHABLE for taint in self.taints)

    @property
    def not_ready(self) -> bool:
        """Whether no pod can start there for now."""
        return any(taint.key in (TAINT_UNREACHABLE, TAINT_NOT_READY) for taint in self.taints)

    def same_placement(self, other: Node) -> bool:
        """Whether the nodes differ only in fields irrelevant to placement, as after a heartbeat."""
        return (
            self.labels == other.labels
            and self.taints == other.taints
            and self.uid == other.uid
            and self.terminating == other.terminating
        )


def project(view: NodeView) -> Node:
    meta = view.metadata
    return Node(
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        labels=meta.labels or {},
        taints=view.spec.taints or (),
        terminating=meta.deletion_timestamp is not None,
        created=epoch(meta.creation_timestamp) or 0.0,
    )


def project_with_images(view: NodeWithImagesView) -> Node:
    names = (name for image in view.status.images or () for name in image.names or ())
    return replace(project(view), images=tuple(map(canonical, names)))
