"""What all actions of one kind have in common, as data: who counts writes, or compares them, need not tell the kinds
apart."""

from __future__ import annotations

from typing import Literal, TypeAlias

from controller.api.base import Value

Effect: TypeAlias = Literal[
    "adopted", "relabelled", "prepared", "kept", "drained", "updated", "continued", "resized", "opened"
]
"""What an action has done to a pod."""


class Traits(Value):
    """What is true of every action of one kind."""

    operation: str = ""
    """The label under which the metrics count them; empty: they are a part of another operation, or about no pod."""
    leaves: Effect | None = None
    """What they do to a pod that lasts: until we end it by another action, or somebody takes it back."""
    ends: Effect | None = None
    """The effect of an earlier action on the same pod that they end once they are done."""
    may_end: Effect | None = None
    """An effect that they end even if they fail, for a part of them may be done."""
