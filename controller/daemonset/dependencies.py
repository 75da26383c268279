"""What an action needs to be done, shared by all passes over all DaemonSets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from controller.api.daemonset import DaemonSet
from controller.kube.client import Client
from controller.kube.errors import ApiError
from controller.planner.actions import Action, Note
from controller.runtime.backoff import BackoffTable
from controller.runtime.clock import Clock
from controller.runtime.freshness import Ledger

Say: TypeAlias = Callable[[DaemonSet, Note], None]
"""Tells a user something, by log and event; returns at once."""

Did: TypeAlias = Callable[[DaemonSet, Action, ApiError | None], None]
"""Is told how the server answered an action, None for yes; returns at once."""

FailedPods: TypeAlias = BackoffTable[tuple[str, int, str]]
"""Back-off of replacing failed pods, by DaemonSet uid, its generation and the node."""


class Dependencies(msgspec.Struct, frozen=True):
    client: Client
    ledger: Ledger
    failed_pods: FailedPods
    say: Say
    clock: Clock
    did: Did
