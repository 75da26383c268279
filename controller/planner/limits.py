"""The Budget: the limits of one pass as numbers.

While surging: the nodes that use up maxSurge, and those that lose an old pod they could keep.

Chooses the nodes that may hold the current revision.

Partition, selector and pause are one promise: docs/design/decisions.md#rollouts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from controller.api import formats
from controller.api.daemonset import DaemonSet, RollingUpdate
from controller.api.objects import Value
from controller.planner.node_fit import Fit
from controller.planner.nodes import NodeInfo

DEFAULT_BURST = 250
"""Pods that one pass creates or deletes at most; the native controller's BurstReplicas."""


class Budget(Value):
    """All limits of a pass, in nodes or pods. Percentages are of the desired number counted in this pass."""

    desired: int
    max_unavailable: int
    max_surge: int
    partition: int
    burst: int

    @property
    def surging(self) -> bool:
        return self.max_surge > 0

    @property
    def limit(self) -> str:
        """Which limit the strategy uses, by its name in the spec."""
        return "maxSurge" if self.surging else "maxUnavailable"

    @property
    def most(self) -> int:
        """How many nodes this limit allows at a time."""
        return self.max_surge if self.surging else self.max_unavailable


def budget_of(daemonset: DaemonSet, desired: int) -> Budget:
    """The limits in the spec as numbers: maxUnavailable and maxSurge round up, partition and burst round down, and
    burst is at least 1.

    If neither limit is set, maxUnavailable is 1; with type `Surging`, maxSurge is 1. If both come to 0,
    maxUnavailable is 1, so that a rollout can always go on. Even with no desired node, a percentage of maxSurge
    decides whether the strategy surges.
    """
    rolling = daemonset.rolling_update or RollingUpdate()
    surge, unavailable = rolling.max_surge, rolling.max_unavailable
    if rolling.rolling_update_type == "Surging" and surge is None:
        surge = 1
    max_surge = formats.scaled(surge, max(desired, 1), round_up=True)
    max_unavailable = formats.scaled(unavailable, desired, round_up=True)
    if daemonset.rolling_update is None:
        max_surge = 0
    if desired and not max_surge and not max_unavailable:
        max_unavailable = 1
    burst = DEFAULT_BURST if daemonset.spec.burst_replicas is None else daemonset.spec.burst_replicas
    return Budget(
        desired=desired,
        max_unavailable=max_unavailable,
        max_surge=max_surge,
        partition=max(formats.scaled(rolling.partition, desired, round_up=False), 0),
        burst=max(formats.scaled(burst, desired, round_up=False), 1),
    )


def mid_surge_of(
    nodes: Sequence[NodeInfo], current: str, coming: Collection[str], leaving: Collection[str]
) -> list[str]:
    """The nodes that use up maxSurge: those with two live pods, as far as we know, or with an old pod while a failed
    new one waits for its back-off.

    `current` is the hash of the current revision. On nodes in `coming` a pod is created, on nodes in `leaving` one is
    deleted, and the caches do not show it yet.
    """
    return [
        node.name
        for node in nodes
        if node.fit is not None
        and (
            node.paired
            or awaits_retry(node, current)
            or (node.only_old and node.name in coming)
            or (node.current is not None and node.name in leaving)
        )
    ]


def awaits_retry(node: NodeInfo, current: str) -> bool:
    """Whether the new pod beside a live old one has failed and is kept until its back-off is over."""
    if node.old is None or not node.had_current:
        return False
    return any(pod.ended and pod.hash == current for pod in node.pods)


def surplus_of(nodes: Sequence[NodeInfo], desired: int) -> tuple[NodeInfo, ...]:
    """While surging: nodes that may only keep their old pod, and now lose it, in update order.

    Such a node gets no new pod. Its old pod goes if it serves nobody, or if more pods are available than desired: an
    application that moves to other nodes always has enough pods. Without surge such pods stay. A pod that is already
    prepared for its deletion goes first, but stays if the available pods have become too few.
    """
    tainted = [node for node in reversed(nodes) if node.fit is Fit.STAY and not node.unreachable]
    leaving = [node for node in tainted if node.only_old and node.selected]
    if not leaving:
        return ()
    spare = [node for node in leaving if node.old_available]
    begun = [node for node in leaving if not node.old_available and only_held(node)]
    useless = [node for node in leaving if not node.old_available and not only_held(node)]
    available = sum(1 for node in nodes if node.fit in (Fit.STAY, Fit.RUN) and node.available) + len(begun)
    return (*useless, *[*begun, *spare][: max(available - desired, 0)])


def only_held(node: NodeInfo) -> bool:
    """Whether the old pod would serve if it were not prepared for its deletion."""
    return node.old is not None and node.old.ready_ignoring_hook and (node.old.held_by_hook or node.old.marked)


def nodes_for_current(
    eligible: Sequence[NodeInfo], rolling: RollingUpdate | None, quota: int, coming: Collection[str]
) -> tuple[NodeInfo, ...]:
    """Those of the `eligible` nodes (ascending) that may hold the current revision, in update order: by node name,
    descending.

    `quota` is the desired number less the partition, in nodes. First come nodes that have the current revision, then
    those whose last pod had it, so that a lost pod comes back as it was and moves no other node. Selected nodes fill
    the rest, unless an incomplete rollout is paused. Other empty nodes get what `Fallback` says. With OnDelete
    (`rolling` is None) all eligible nodes may. Nodes in `coming` may have the current revision already.
    """
    in_order = eligible[::-1]
    if rolling is None:
        return tuple(in_order)
    having = [node for node in in_order if node.current is not None or node.name in coming]
    lacking = [node for node in in_order if node.current is None and node.name not in coming]
    had = [node for node in lacking if _lost_current(node)]
    rest = [node for node in lacking if node.selected and not _lost_current(node)]
    if is_frozen(lacking, rolling):
        rest = []
    return tuple((having + had + rest)[:quota])


def is_frozen(eligible: Iterable[NodeInfo], rolling: RollingUpdate) -> bool:
    """Whether the rollout is paused while an eligible node has only a pod of an older revision, or had one last."""
    if not rolling.paused:
        return False
    return any(node.current is None and node.had_old for node in eligible)


def _lost_current(node: NodeInfo) -> bool:
    return node.had_current and node.old is None
