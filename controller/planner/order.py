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

    def of(self, nodes: Sequence[Node]) -> Sequence[int]:
        """The indexes of these nodes, which are sorted by name, in update order."""
        by_name = range(len(nodes) - 1, -1, -1)
        if not self._places:
            return by_name
        return sorted(by_name, key=lambda index: [place(nodes[index].labels) for place in self._places])


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
