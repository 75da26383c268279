"""`RolloutStatus`: what `status -o json` prints, one documented record of a rollout.

Within `kruise-ds/v1` keys are only added, never renamed.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from controller.api.base import JSON, JSONObject, Value
from kubectl_plugin.report.node_row import NodeCounts
from kubectl_plugin.report.preparing import Preparing
from kubectl_plugin.report.pulls import PullCounts
from kubectl_plugin.report.steps import Steps


class RevisionNumbers(Value, rename="camel"):
    current: int | None
    """None without the right to list the revisions."""
    hash: str
    previous: int | None
    """The newest older one that nodes still have; None for the first revision."""

    @property
    def shown(self) -> str:
        """The current one, for people."""
        return "?" if self.current is None else str(self.current)


class ImageChange(Value, rename={"before": "from", "after": "to"}):
    """None where there is no such container."""

    before: str | None
    after: str | None


class Strategy(Value, rename="camel"):
    """In nodes, whatever it is in the spec."""

    type: str
    rolling_update_type: str | None
    max_unavailable: int
    max_surge: int
    partition: int
    paused: bool
    selector: JSON


class BudgetUse(Value, rename="camel"):
    """Of maxUnavailable, or of maxSurge where that is used."""

    max: int
    used: int | None
    """None where only the pods would tell."""
    by: tuple[str, ...]
    """In update order."""


class Group(Value, rename="camel"):
    key: str
    nodes: int
    updated: int


class Problem(Value, rename="camel", kw_only=True):
    """A pod that does not get well by waiting; without node and pod what the server tells the controller."""

    node: str = ""
    pod: str = ""
    container: str = ""
    reason: str
    restarts: int = 0
    exit_code: int | None = None
    message: str
    revision: int | None = None


class Pause(Value, rename="camel"):
    """Who paused it; the texts are empty where nobody noted it."""

    at: str
    by: str
    reason: str


class RolloutStatus(Value, rename="camel", kw_only=True):
    api_version: str
    kind: str
    namespace: str
    name: str
    generation: int
    phase: str
    since: str | None
    """When that phase began."""
    reason: str
    message: str
    revision: RevisionNumbers
    images: Mapping[str, ImageChange] = {}
    """By container; only those that change."""
    strategy: Strategy
    nodes: NodeCounts
    budget: BudgetUse
    groups: tuple[Group, ...] = ()
    """Empty without the right to list nodes."""
    problems: tuple[Problem, ...] = ()
    """Writes that fail first, then nodes with a pod of the new revision, in update order."""
    preparing: tuple[Preparing, ...] = ()
    """Pods that the preDelete hook holds, in update order; empty without the right to read pods."""
    steps: Steps | None
    started_at: str | None
    last_progress_at: str | None
    completed_at: str | None
    paused: Pause | None
    images_ahead: PullCounts | None = None
    """Of the nodes to which images go ahead of the update; None where none does."""
    unreadable: tuple[str, ...]
    """What we may not read, and what is therefore not in here."""

    @property
    def document(self) -> JSONObject:
        """As JSON has it."""
        made: JSONObject = msgspec.to_builtins(self)
        return made
