"""The limits of a pass: numbers of nodes and pods (`Budget`), and for `rollingUpdate.topology` how many nodes of one
failure domain, and how many domains, may be short at once (`Domains`).

A node is short when it has no available pod or, while surging, two pods. It counts against its own domain whatever
the reason. Only nodes that are short because of the update count against `maxDomains`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf

from controller.api import formats
from controller.api.daemonset import DaemonSet, RollingUpdate, Topology
from controller.api.objects import Value
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
    leave_out: int = 0
    """Unreachable nodes that are not waited for."""

    @property
    def surging(self) -> bool:
        return self.max_surge > 0

    @property
    def limit(self) -> str:
        return "maxSurge" if self.surging else "maxUnavailable"

    @property
    def most(self) -> int:
        return self.max_surge if self.surging else self.max_unavailable


def budget_of(daemonset: DaemonSet, desired: int) -> Budget:
    """The limits of the spec as numbers; maxUnavailable and maxSurge round up, the others down.
    maxUnavailable is 1 if both limits come to 0, so that a rollout can go on; maxSurge is 1 if it is unset and the
    type is `Surging`; burst is at least 1. A percentage of maxSurge means surging even if no node is desired."""
    rolling = daemonset.rolling_update or RollingUpdate()
    surge, unavailable, silent = rolling.max_surge, rolling.max_unavailable, rolling.unreachable_nodes
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
        leave_out=formats.scaled(silent.leave_out, desired, round_up=False) if silent is not None else 0,
    )


class Domains:
    def __init__(
        self,
        topology: Topology,
        sizes: Mapping[str | None, int],
        short: Iterable[NodeInfo],
        by_update: Iterable[NodeInfo],
    ) -> None:
        """`sizes`: the number of eligible nodes of each domain; nodes without the label are one domain, None.
        `by_update`: the nodes that are short because of the update."""
        share = topology.max_unavailable
        self._topology = topology
        self.most = {
            domain: inf if share is None else formats.scaled(share, size, round_up=True)
            for domain, size in sizes.items()
        }
        """The number of nodes that may be short at once in each domain; no limit where its nodes are not known."""
        self.short = Counter(map(self.domain, short))
        self.open = frozenset(map(self.domain, by_update))

    def domain(self, node: NodeInfo) -> str | None:
        return node.object.labels.get(self._topology.key) if node.object is not None else None

    def admitted(
        self, young: Sequence[NodeInfo], young_room: float, available: Sequence[NodeInfo], room: float
    ) -> list[NodeInfo]:
        """The nodes that may be updated together, in order: at most `young_room` of `young`, whose old pod is Ready
        and not yet available, so that they are short already; and at most `room` of `available`."""
        opened = set(self.open)
        others = self.short - Counter(map(self.domain, young))
        return [*self._chosen(young, young_room, others, opened), *self._chosen(available, room, self.short, opened)]

    def _chosen(
        self, candidates: Sequence[NodeInfo], room: float, short: Counter[str | None], opened: set[str | None]
    ) -> list[NodeInfo]:
        """The first `room` candidates that the limits of their domains allow; adds their domains to `opened`. If more
        domains are open than `maxDomains`, as an earlier update may have left them, no node is chosen."""
        key, most, used, chosen = self._topology.key, self.most, short.copy(), list[NodeInfo]()
        most_open = inf if self._topology.max_domains is None else self._topology.max_domains
        for node in candidates:
            if len(chosen) >= room:
                break
            domain = node.object.labels.get(key) if node.object is not None else None
            if used[domain] < most.get(domain, inf) and len(opened) + (domain not in opened) <= most_open:
                opened.add(domain)
                used[domain] += 1
                chosen.append(node)
        return chosen

    def is_held_by(self, node: NodeInfo, others: Collection[NodeInfo]) -> bool:
        """Whether the node's domain is full, and would not be full without `others`, some of the short nodes."""
        domain = self.domain(node)
        held = sum(self.domain(other) == domain for other in others)
        return self.short[domain] - held < self.most.get(domain, inf) <= self.short[domain]
