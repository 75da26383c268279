"""Numbers of nodes, and their names, in the words of a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from controller.api import formats
from controller.api.formats import IntOrPercent


def new_nodes(partition: IntOrPercent, desired: int) -> str:
    """`8 of 24 new`: said beside a partition, which counts the old pods although people think of the new ones."""
    new = max(desired - formats.scaled(partition, desired, round_up=False), 0)
    return f"{new} of {desired} new"


def between(names: Sequence[str], dots: str = "…") -> str:
    """Up to three names; of more, the first and the last."""
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} {dots} {names[-1]}"
