"""What passes and their actions need to be done, the same for all DaemonSets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from controller.api.daemonset import DaemonSet, DaemonSetStatus
from controller.api.meta import Key
from controller.kube.client import Client
from controller.kube.errors import ApiError
from controller.planner.actions import Action
from controller.planner.step import Note
from controller.runtime.backoff import BackoffTable
from controller.runtime.clock import Clock
from controller.runtime.freshness import Ledger, Stale

FailedPods: TypeAlias = BackoffTable[tuple[str, int, str]]
"""Back-off of replacing failed pods, by DaemonSet uid, its generation and the node."""


class Dependencies(msgspec.Struct, frozen=True):
    """The callables return at once and must not raise."""

    client: Client
    ledger: Ledger
    failed_pods: FailedPods
    clock: Clock
    say: Callable[[DaemonSet, Note], None]
    """Tells a user something, by log and event."""
    did: Callable[[DaemonSet, Action, ApiError | None], None]
    """An action was answered: with this error, or None for success."""
    on_plan: Callable[[float], None]
    """The seconds that deciding took."""
    on_stale: Callable[[Key, Stale], None]
    """A pass that had to wait for its own writes to be seen."""
    on_overdue: Callable[[Key, Stale], None]
    """A pass that has had to wait for its own writes for 30 seconds: the resource is to be listed again."""
    on_status_answer: Callable[[Literal["success", "conflict", "error"]], None]
    """A status write was answered."""
    on_status: Callable[[DaemonSet, DaemonSetStatus | None, DaemonSetStatus], None]
    """The status as it was before a write that went through, and as it is now."""
