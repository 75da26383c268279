"""The order of updates: by the rules of `rollingUpdate.order`, then by node name, descending."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from controller.api import selector
from controller.api.daemonset import OrderRule
from controller.api.node import Node
from controller.api.selector import LabelSelector, is_label_key

_NUMBER = re.compile(r"([0-9]+)")
_Places: TypeAlias = Callable[[Sequence[Node]], Sequence[int]]
"""The place of each node by one rule, lower first."""


class UpdateOrder:
    def __init__(self, rules: Iterable[OrderRule]) -> None:
        """Raises ValueError for a rule that cannot be used, naming its index and field."""
        rules = tuple(rules)
        self._rules = [_compiled(index, rule) for index, rule in enumerate(rules)]
        self.keys = frozenset(key for rule in rules for key in _keys(rule))
        """The node labels that decide."""

    def of(self, nodes: Sequence[Node]) -> Sequence[int]:
        """The indexes of these nodes, which are sorted by name, in update order."""
        order: Sequence[int] = range(len(nodes) - 1, -1, -1)
        for places_of in reversed(self._rules):  # sorting is stable, so that the first rule decides
            order = sorted(order, key=places_of(nodes).__getitem__)
        return order


def _keys(rule: OrderRule) -> Iterator[str]:
    if rule.group_by:
        yield rule.group_by
    yield from rule.match_labels or ()
    yield from (one.key for one in rule.match_expressions or ())


def _compiled(index: int, rule: OrderRule) -> _Places:
    if not rule.group_by:
        try:
            matches = selector.parse(
                LabelSelector(match_labels=rule.match_labels, match_expressions=rule.match_expressions)
            )
        except ValueError as error:
            raise ValueError(f"order[{index}]: {error}") from error
        return lambda nodes: [not matches(node.labels) for node in nodes]
    key = rule.group_by
    if not is_label_key(key):
        raise ValueError(f"order[{index}].groupBy: {key!r} is not a label key")

    def places_of(nodes: Sequence[Node]) -> Sequence[int]:
        values = [node.labels.get(key) for node in nodes]
        groups = sorted({value for value in values if value is not None}, key=natural)
        places = {value: place for place, value in enumerate(groups)}
        return [len(groups) if value is None else places[value] for value in values]

    return places_of


def natural(value: str) -> tuple[list[str | int], str]:
    """A key that sorts `zone-2` before `zone-10`; equal only for equal values."""
    parts = [int(part) if part.isdecimal() else part for part in _NUMBER.split(value)]
    return parts, value
