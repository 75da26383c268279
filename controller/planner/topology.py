"""The failure domains of `rollingUpdate.topology`: how many nodes of one, and how many domains, may be short at once.

A node is short when it has no available pod or, while surging, two pods. It counts against its own domain whatever
the reason. Only nodes that are short because of the update count against `maxDomains`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf

from controller.api import formats
from controller.api.daemonset import Topology
from controller.planner.nodes import NodeInfo


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
        asked = topology.max_unavailable
        self._topology = topology
        self.most = {
            domain: inf if asked is None else formats.scaled(asked, size, round_up=True)
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
        """The nodes that may be taken together, in order: at most `young_room` whose old pod is Ready and not yet
        available, which are short already and keep their place, and at most `room` whose old pod is available."""
        opened = set(self.open)
        others = self.short - Counter(map(self.domain, young))
        return [*self._taken(young, young_room, others, opened), *self._taken(available, room, self.short, opened)]

    def _taken(
        self, candidates: Sequence[NodeInfo], room: float, short: Counter[str | None], opened: set[str | None]
    ) -> list[NodeInfo]:
        """Adds to `opened` the domains that are touched now."""
        key, most, used, taken = self._topology.key, self.most, short.copy(), list[NodeInfo]()
        most_open = inf if self._topology.max_domains is None else self._topology.max_domains
        for node in candidates:
            if len(taken) >= room:
                break
            domain = node.object.labels.get(key) if node.object is not None else None
            if used[domain] < most.get(domain, inf) and (domain in opened or len(opened) < most_open):
                opened.add(domain)
                used[domain] += 1
                taken.append(node)
        return taken

    def is_held_by(self, node: NodeInfo, others: Collection[NodeInfo]) -> bool:
        """Whether the node's domain would have room without these short nodes, and has none now."""
        domain = self.domain(node)
        held = sum(self.domain(other) == domain for other in others)
        return self.short[domain] - held < self.most.get(domain, inf) <= self.short[domain]
