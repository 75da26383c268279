"""The limits of a rollout: maxUnavailable, maxSurge, partition and burst as numbers, and the nodes that they allow.

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
    """The limits of a pass, in nodes or pods. Percentages are of `desired`."""

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
        """The limit that the strategy uses, by its name in the spec."""
        return "maxSurge" if self.surging else "maxUnavailable"

    @property
    def most(self) -> int:
        """How many nodes this limit allows at a time."""
        return self.max_surge if self.surging else self.max_unavailable


def budget_of(daemonset: DaemonSet, desired: int) -> Budget:
    """The limits of the spec as numbers. maxUnavailable and maxSurge round up, partition and burst round down.

    maxUnavailable is 1 if both limits are unset or come to 0, so that a rollout can go on; maxSurge is 1 if it is
    unset and the type is `Surging`. burst is at least 1. With no desired node, a percentage of maxSurge still means
    that the strategy surges.
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
    """The nodes that use maxSurge: with two live pods, or with a live old pod and a failed new one in its back-off.

    `current` is the hash of the current revision. `coming` and `leaving` are nodes where a pod was created or deleted
    and the caches do not show it yet.
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
    """Whether the new pod beside a live old one has failed, and is kept until its back-off is over."""
    if node.old is None or not node.had_current:
        return False
    return any(pod.ended and pod.hash == current for pod in node.pods)


def surplus_of(nodes: Sequence[NodeInfo], desired: int) -> tuple[NodeInfo, ...]:
    """Nodes that may only keep a pod (`Fit.STAY`) and lose their old one while the strategy surges, in update order.

    Such a node gets no new pod. Its old pod is deleted if it is not available, or if more pods are available than
    desired, so that an application that moves to other nodes always has enough pods. A pod that is already prepared
    for its deletion goes first, but stays if the available pods have become too few.
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
    """Whether the old pod would be ready if it were not prepared for its deletion."""
    return (
        node.old is not None and node.old.ready_ignoring_hook and (node.old.held_by_hook or node.old.marked_not_ready)
    )


def nodes_for_current(
    eligible: Sequence[NodeInfo], rolling: RollingUpdate | None, quota: int, coming: Collection[str]
) -> tuple[NodeInfo, ...]:
    """The nodes that may hold the current revision, at most `quota`, in update order: by name, descending.

    First come nodes that have it or may have it (`coming`), then those whose last pod had it, so that a lost pod
    comes back as it was and moves no other node. Selected nodes fill the rest, unless an incomplete rollout is
    paused. With OnDelete (`rolling` is None) all `eligible` nodes may hold it.
    """
    in_order = eligible[::-1]
    if rolling is None:
        return tuple(in_order)
    having = [node for node in in_order if node.current is not None or node.name in coming]
    lacking = [node for node in in_order if node.current is None and node.name not in coming]
    had = [node for node in lacking if node.had_current and node.old is None]
    rest = [node for node in lacking if node.selected and not (node.had_current and node.old is None)]
    if is_frozen(lacking, rolling):
        rest = []
    return tuple((having + had + rest)[:quota])


def is_frozen(eligible: Iterable[NodeInfo], rolling: RollingUpdate) -> bool:
    """Whether the rollout is paused while some node has only a pod of an older revision, or had one last."""
    if not rolling.paused:
        return False
    return any(node.current is None and node.had_old for node in eligible)
