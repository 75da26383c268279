"""How one node stands in a rollout, in one word: the same for metrics, `nodes --only` and every screen."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class NodeState(StrEnum):
    UPDATED = "updated"
    """An available pod of the current revision."""
    UPDATING = "updating"
    """On its way: the old pod goes, or the new one is not available yet."""
    FAILING = "failing"
    """A pod of the current revision that does not get well by waiting, or one that has ended."""
    NEXT = "next"
    """An old pod that may be replaced: its turn comes."""
    OLD = "old"
    """An old pod that partition or selector keeps."""
    MISSING = "missing"
    """No pod, although there should be one."""
    UNPLANNED = "unplanned"
    """Like updated, though partition or selector would have kept the old revision there."""
    DELETING = "deleting"
    """Its only pod is going, and another one of an older revision will come."""
    EXCLUDED = "excluded"
    """It should not run the pod."""


PREPARING: Final = "preparing"
"""Not one of these, and beside any of them: a preDelete hook holds a pod there."""
