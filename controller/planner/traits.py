"""What all actions of one kind have in common, as data: whoever counts writes or compares them asks this and not for
the kind."""

from __future__ import annotations

from typing import Literal, TypeAlias

from controller.api.base import Value

Effect: TypeAlias = Literal[
    "adopted", "relabelled", "prepared", "kept", "drained", "updated", "continued", "resized", "opened"
]
"""What stays done to a pod."""


class Traits(Value):
    """What all actions of one kind have in common."""

    operation: str = ""
    """The label under which they are counted; empty: they are a part of another operation, or about no pod."""
    leaves: Effect | None = None
    """What they do to a pod, if it stays done until somebody takes it back, or until an action of ours ends it."""
    ends: Effect | None = None
    """What an earlier action has done to the pod, and they end."""
    may_end: Effect | None = None
    """Likewise, also where they fail: something of them may be done."""
