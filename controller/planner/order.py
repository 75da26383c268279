"""The order of updates: by the rules of `rollingUpdate.order`, then by node name, descending."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from controller.api import selector
from controller.api.daemonset import OrderRule
from controller.api.node import Node
from controller.api.selector import LabelSelector, is_label_key

_NUMBER = re.compile(r"([0-9]+)")
_Place: TypeAlias = tuple[object, ...]


class UpdateOrder:
    def __init__(self, rules: Iterable[OrderRule]) -> None:
        """Raises ValueError for a rule that cannot be used, naming its index and field."""
        self._places = [_place_by(index, rule) for index, rule in enumerate(rules)]

    def ranks(self, nodes: Sequence[Node]) -> Mapping[str, int]:
        """The place of each node by name, lower first; empty without rules, as the names then decide alone."""
        if not self._places:
            return {}
        by_name = sorted(nodes, key=lambda node: node.name, reverse=True)
        by_name.sort(key=lambda node: [place(node.labels) for place in self._places])
        return {node.name: rank for rank, node in enumerate(by_name)}


def _place_by(index: int, rule: OrderRule) -> Callable[[Mapping[str, str]], _Place]:
    """How one rule tells nodes apart by their labels."""
    if not rule.group_by:
        try:
            matches = selector.parse(
                LabelSelector(match_labels=rule.match_labels, match_expressions=rule.match_expressions)
            )
        except ValueError as error:
            raise ValueError(f"order[{index}]: {error}") from error
        return lambda labels: (not matches(labels),)
    key = rule.group_by
    if not is_label_key(key):
        raise ValueError(f"order[{index}].groupBy: {key!r} is not a label key")
    return lambda labels: (0, *natural(labels[key])) if key in labels else (1,)


def natural(value: str) -> tuple[list[str | int], str]:
    """A key that sorts `zone-2` before `zone-10`; equal only for equal values."""
    parts = [int(part) if part.isdecimal() else part for part in _NUMBER.split(value)]
    return parts, value
