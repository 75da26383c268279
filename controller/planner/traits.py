"""The traits that all actions of one kind share, as data. Code that counts or compares writes reads the traits, so it
need not match on every class of action."""

from __future__ import annotations

from typing import Literal, TypeAlias

from controller.api.base import Value

Effect: TypeAlias = Literal[
    "adopted", "relabelled", "prepared", "kept", "drained", "updated", "continued", "resized", "opened"
]
"""An effect of an action on a pod."""


class Traits(Value):
    """The traits of all actions of one kind."""

    operation: str = ""
    """The label under which the metrics count them; empty: they are a part of another operation, or about no pod."""
    leaves: Effect | None = None
    """The effect that lasts on a pod, until we end it by another action or somebody takes it back; None: there is
    none."""
    ends: Effect | None = None
    """The effect of an earlier action on the same pod that they end once they are done."""
    may_end: Effect | None = None
    """An effect that they end even if they fail, for a part of them may be done."""
