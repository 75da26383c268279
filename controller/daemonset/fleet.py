"""All nodes as one sorted tuple that stays the same object while no placement changes: compiled rules remember their
verdicts by its identity, so a heartbeat costs nothing and a pass asks nothing twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from controller.api.node import Node


class Fleet:
    def __init__(self, nodes: Callable[[], Iterable[Node]]) -> None:
        self._read = nodes
        self._sorted: tuple[Node, ...] | None = None

    def changed(self) -> None:
        """A node came, went, or got other labels or taints."""
        self._sorted = None

    @property
    def nodes(self) -> tuple[Node, ...]:
        """By name, ascending."""
        if self._sorted is None:
            self._sorted = tuple(sorted(self._read(), key=lambda node: node.name))
        return self._sorted
