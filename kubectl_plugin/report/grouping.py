"""Nodes in groups: by zone, architecture, pool, or any label."""

from __future__ import annotations

from typing import Final

from controller.api.node import ZONE_LABELS, Node

LABELS: Final = {
    "zone": ZONE_LABELS,
    "arch": ("kubernetes.io/arch",),
    "pool": (
        "cloud.google.com/gke-nodepool",
        "eks.amazonaws.com/nodegroup",
        "kubernetes.azure.com/agentpool",
        "karpenter.sh/nodepool",
    ),
}
"""The node labels that each short word of `--by` stands for; the first one that a node has counts."""

WITHOUT: Final = "nodes"
"""The group of nodes that have none of the labels."""


def group_of(node: Node, by: str) -> str:
    """`by` is `zone`, `arch`, `pool` or the key of a node label."""
    for key in LABELS.get(by, (by,)):
        if value := node.labels.get(key):
            return value
    return WITHOUT
