"""What all passes and triggers share."""

from __future__ import annotations

from typing import Literal

import msgspec

from controller.api.daemonset import DaemonSet, DaemonSetStatus
from controller.api.image_pull_job import ImagePullJob
from controller.api.objects import Key
from controller.api.pod import Pod
from controller.kube.client import Client
from controller.kube.decode import Malformed
from controller.kube.errors import ApiError
from controller.planner.actions import Action, Note
from controller.runtime.clock import Clock, ServerClock
from controller.runtime.expectations import Expectations, Stale


class Observer:
    """Reports to logs, metrics and events; this base class does nothing. Methods return at once and do not raise."""

    def event(self, about: DaemonSet | ImagePullJob, note: Note) -> None:
        """Records an event for users."""

    def planned(self, seconds: float) -> None:
        """A pass decided within `seconds`."""

    def action_done(self, daemonset: DaemonSet, action: Action, error: ApiError | None) -> None:
        """An action was answered; without `error` it is done."""

    def status_answered(self, result: Literal["success", "conflict", "error"]) -> None:
        """A status write was answered."""

    def status_written(self, daemonset: DaemonSet, before: DaemonSetStatus | None, after: DaemonSetStatus) -> None:
        """The status was changed."""

    def stale(self, key: Key, stale: Stale) -> None:
        """A pass waits until the caches show earlier writes. If that is overdue, the resource is listed again."""

    def check_answered(self, key: Key, check: str, problem: str) -> None:
        """A check has no answer because of `problem`, or has answers again if that is empty. Called at each
        change."""

    def pod_seen(self, daemonset: DaemonSet, pod: Pod) -> None:
        """A pod of a DaemonSet was added or changed."""

    def daemonset_gone(self, uid: str) -> None:
        """A DaemonSet is gone."""

    def node_gone(self, name: str) -> None:
        """A node is gone."""

    def foreign_status(self, daemonset: DaemonSet, manager: str) -> None:
        """Another controller wrote the status as this field manager."""

    def malformed(self, plural: str, malformed: Malformed) -> None:
        """An object of this kind cannot be decoded."""


class Dependencies(msgspec.Struct, frozen=True):
    client: Client
    expectations: Expectations
    clock: Clock
    observer: Observer
    server_clock: ServerClock
