"""Reports for programs: documents with a kind and an API version of their own. Within `kruise-ds/v1` keys are only
added, never renamed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from controller.api.daemonset import Phase
from controller.api.formats import IntOrPercent
from controller.api.objects import JSON, JSONObject, Value
from kubectl_plugin.rollout.nodes import NodeCounts, Preparing
from kubectl_plugin.rollout.snapshot import PullCounts
from kubectl_plugin.rollout.steps import Steps

API_VERSION: Final = "kruise-ds/v1"


def document(kind: str, **fields: JSON) -> JSONObject:
    return {"apiVersion": API_VERSION, "kind": kind, **fields}


class Strategy(Value, rename="camel"):
    """The update strategy. Limits are numbers of nodes, also where the spec has percentages."""

    type: str
    rolling_update_type: str | None
    max_unavailable: int
    max_surge: int
    partition: int
    paused: bool
    selector: JSON
    """As it is written, because a program may copy it."""


class BudgetUse(Value, rename="camel"):
    """How much of maxUnavailable is in use, or of maxSurge where that is set."""

    max: int
    used: int | None
    """None if only the pods would tell."""
    by: tuple[str, ...]
    """The nodes that use it, in update order."""


class Problem(Value, rename="camel", kw_only=True):
    """A pod that will not become ready by itself; without node and pod, an error that the server answers to the
    controller."""

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
    """None without the right to list the revisions."""
    hash: str
    previous: int | None
    """The newest older one that nodes still have; None for the first revision."""

    @property
    def shown(self) -> str:
        """The current number, or `?`, for people."""
        return "?" if self.current is None else str(self.current)


class ImageChange(Value, rename={"before": "from", "after": "to"}):
    """The images of one container. None: the container does not exist on that side."""

    before: str | None
    after: str | None


class Group(Value, rename="camel"):
    key: str
    nodes: int
    updated: int


class PauseNote(Value, rename="camel"):
    """Who paused it, when and why; the texts are empty if that was not recorded."""

    at: str
    by: str
    reason: str


class RolloutDocument(Value, rename="camel", kw_only=True):
    """What `status -o json` prints of one rollout, kind RolloutStatus."""

    api_version: str
    kind: str
    namespace: str
    name: str
    generation: int
    phase: Phase
    since: str | None
    """When that phase began."""
    reason: str
    message: str
    revision: RevisionNumbers
    images: Mapping[str, ImageChange]
    """The images that change, by container."""
    strategy: Strategy
    nodes: NodeCounts
    budget: BudgetUse
    groups: tuple[Group, ...]
    """Empty without the right to list nodes."""
    problems: tuple[Problem, ...]
    """Writes that fail first, then nodes with a pod of the new revision, in update order."""
    preparing: tuple[Preparing, ...]
    """Pods that the preDelete hook holds, in update order; empty without the right to read pods."""
    steps: Steps | None
    started_at: str | None
    last_progress_at: str | None
    completed_at: str | None
    paused: PauseNote | None
    images_ahead: PullCounts | None
    """How many nodes have the images that are pulled ahead of the update; None if none are."""
    unreadable: tuple[str, ...]
    """What may not be read, and is therefore missing here."""

    @property
    def as_json(self) -> JSONObject:
        made: JSONObject = msgspec.to_builtins(self)
        return made


class OverviewLine(Value):
    """An entry of what `list -o json` prints."""

    namespace: str
    name: str
    phase: Phase
    done: int
    target: int
    desired: int
    partition: IntOrPercent
    revision: int | None
    images: tuple[str, ...]
    """The images of the containers, in their short form."""
    since: str | None
    """When the phase began, RFC 3339."""
    why: str
    """Why the rollout waits; empty if it waits for nothing."""
