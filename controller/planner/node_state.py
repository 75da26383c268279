"""The state of one node in a rollout, in one word: the same for metrics, `nodes --only` and every screen."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class NodeState(StrEnum):
    UPDATED = "updated"
    """It has an available pod of the current revision."""
    UPDATING = "updating"
    """It is being updated: the old pod is going, or the new one is not available yet."""
    FAILING = "failing"
    """Its pod of the current revision does not recover by waiting, or has ended."""
    NEXT = "next"
    """Its old pod may be replaced, and its turn comes."""
    OLD = "old"
    """Partition or selector keeps its old pod."""
    MISSING = "missing"
    """It has no pod, although it should have one."""
    UNPLANNED = "unplanned"
    """It is updated, although partition or selector would have kept it old."""
    DELETING = "deleting"
    """Its only pod is being deleted, and one of an older revision will follow."""
    EXCLUDED = "excluded"
    """It should not run a pod."""


PREPARING: Final = "preparing"
"""No state of its own, but shown beside any state: the preDelete hook holds a pod there."""
