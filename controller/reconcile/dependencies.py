"""The dependencies of all passes over DaemonSets: client, ledger, clock, and the listeners that log and count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from controller.api.daemonset import DaemonSet, DaemonSetStatus
from controller.api.objects import Key
from controller.kube.client import Client
from controller.kube.errors import ApiError
from controller.planner.actions import Action, Note
from controller.runtime.clock import Clock
from controller.runtime.expectations import Expectations, Stale


class Dependencies(msgspec.Struct, frozen=True):
    """The same for all DaemonSets. The callables return at once and must not raise."""

    client: Client
    expectations: Expectations
    clock: Clock
    say: Callable[[DaemonSet, Note], None]
    """Reports to users, by log and event."""
    did: Callable[[DaemonSet, Action, ApiError | None], None]
    """Called when an action was answered, with its error or None."""
    on_plan: Callable[[float], None]
    """Called with the seconds that deciding took."""
    on_stale: Callable[[Key, Stale], None]
    """Called when a pass has to wait until the caches show our own writes."""
    on_overdue: Callable[[Key, Stale], None]
    """Called when that has lasted for 30 seconds (`STALE_WARNING`): the resource has to be listed again."""
    on_status_answer: Callable[[Literal["success", "conflict", "error"]], None]
    """Called when a status write was answered."""
    on_status: Callable[[DaemonSet, DaemonSetStatus | None, DaemonSetStatus], None]
    """Called after a status write with the status before it, and the new one."""
