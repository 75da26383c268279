"""Nodes, as far as placement looks at them: name, labels and taints. Nothing else is cached."""

from __future__ import annotations

from typing import Final

from controller.api.base import Value, View
from controller.api.meta import Key, ObjectMeta
from controller.api.wellknown import TAINT_UNREACHABLE

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


class Node(Value):
    """A node as it is cached."""

    name: str
    uid: str
    version: str
    labels: dict[str, str]
    taints: tuple[Taint, ...]

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
        """The control plane no longer hears of this node (D23): nothing that we delete there goes away."""
        return any(taint.key == TAINT_UNREACHABLE for taint in self.taints)

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
