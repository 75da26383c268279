"""The nodes of a job, in the order of their turn: that of updates, descending by name. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from controller.api.base import Value
from controller.api.image import canonical
from controller.api.image_pull_job import ImagePullJob
from controller.api.node import Node
from controller.api.selector import LabelSelector, parse

VIRTUAL = ("type", "virtual-kubelet")
"""Label of nodes behind which is no machine that could keep an image."""


class Targets(Value, gc=True):
    nodes: Sequence[str] = ()
    silent: frozenset[str] = frozenset()
    """On which nothing starts now."""
    having: frozenset[str] = frozenset()
    """Whose kubelet tells of the image already."""


def keeps_images(node: Node) -> bool:
    key, value = VIRTUAL
    return node.labels.get(key) != value


def targets(
    job: ImagePullJob,
    nodes: Iterable[Node],
    with_pods: Collection[str] | None,
    updated: LabelSelector | None = None,
) -> Targets:
    """`with_pods`: the nodes of the pods that the job's podSelector chooses, where it has one. `updated`: which of
    them the rollout updates whose job it is; None: all."""
    names = set(with_pods) if with_pods is not None else None
    if names is None and job.spec.selector is not None and job.spec.selector.names:
        names = set(job.spec.selector.names)
    chosen = [
        node
        for node in nodes
        if (names is None or node.name in names) and job.matches(node.labels) and keeps_images(node)
    ]
    image = canonical(job.spec.image)
    first = parse(updated or LabelSelector())
    return Targets(
        nodes=[node.name for node in sorted(chosen, key=lambda one: (first(one.labels), one.name), reverse=True)],
        silent=frozenset(node.name for node in chosen if node.silent),
        having=frozenset(node.name for node in chosen if not job.spec.asks_registry and image in node.images),
    )
