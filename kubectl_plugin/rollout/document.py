"""JSON documents of the plugin. Within API version `kruise-ds/v1` keys are only added, never renamed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from controller.api.daemonset import CheckRecord, Phase
from controller.api.formats import IntOrPercent
from controller.api.objects import JSON, JSONObject, Value
from kubectl_plugin.rollout.nodes import NodeCounts, Preparing
from kubectl_plugin.rollout.snapshot import PullCounts
from kubectl_plugin.rollout.steps import Steps

API_VERSION: Final = "kruise-ds/v1"


def document(kind: str, **fields: JSON) -> JSONObject:
    return {"apiVersion": API_VERSION, "kind": kind, **fields}


class Strategy(Value, rename="camel"):
    """The update strategy; percentages are resolved to numbers of nodes."""

    type: str
    rolling_update_type: str | None
    max_unavailable: int
    max_surge: int
    partition: int
    paused: bool
    selector: JSON


class BudgetUse(Value, rename="camel"):
    """Use of maxUnavailable, or of maxSurge if that is set."""

    max: int
    used: int | None
    """None if it is unknown without the pods."""
    by: tuple[str, ...]


class FailureLine(Value, rename="camel", kw_only=True):
    """A pod that will not become ready by itself; without node and pod, a failed write of the controller."""

    node: str = ""
    pod: str = ""
    container: str = ""
    reason: str
    restarts: int = 0
    exit_code: int | None = None
    message: str
    revision: int | None = None


class RevisionNumbers(Value, rename="camel"):
    current: int | None
    """None without the right to list revisions."""
    hash: str
    previous: int | None
    """The newest older revision on any node; None for the first revision."""

    @property
    def shown(self) -> str:
        return "?" if self.current is None else str(self.current)


class ImageChange(Value, rename={"before": "from", "after": "to"}):
    """The images of one container; None if that side lacks the container."""

    before: str | None
    after: str | None


class Group(Value, rename="camel"):
    key: str
    nodes: int
    updated: int


class PauseNote(Value, rename="camel"):
    """Who paused the rollout, when and why; empty if not recorded."""

    at: str
    by: str
    reason: str


class RolloutDocument(Value, rename="camel", kw_only=True):
    """The output of `status -o json` for one rollout, kind RolloutStatus."""

    api_version: str
    kind: str
    namespace: str
    name: str
    generation: int
    phase: Phase
    since: str | None
    """When the phase began, in RFC 3339."""
    reason: str
    message: str
    revision: RevisionNumbers
    images: Mapping[str, ImageChange]
    strategy: Strategy
    nodes: NodeCounts
    budget: BudgetUse
    groups: tuple[Group, ...]
    """Empty without the right to list nodes."""
    problems: tuple[FailureLine, ...]
    """Failing writes, then nodes with a pod of the new revision, in update order."""
    preparing: tuple[Preparing, ...]
    """Pods held by the preDelete hook, in update order; empty without the right to read pods."""
    steps: Steps | None
    checks: tuple[CheckRecord, ...]
    """The checks of the step that do not pass."""
    started_at: str | None
    last_progress_at: str | None
    completed_at: str | None
    paused: PauseNote | None
    images_ahead: PullCounts | None
    """How many nodes have the images pulled ahead of the update; None if none are pulled."""
    unreadable: tuple[str, ...]

    @property
    def as_json(self) -> JSONObject:
        made: JSONObject = msgspec.to_builtins(self)
        return made


class OverviewLine(Value):
    """An item of `list -o json`."""

    namespace: str
    name: str
    phase: Phase
    done: int
    target: int
    desired: int
    partition: IntOrPercent
    revision: int | None
    images: tuple[str, ...]
    since: str | None
    why: str
