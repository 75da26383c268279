"""Keeps the last status that we wrote for one DaemonSet, until the cache shows it."""

from __future__ import annotations

import msgspec

from controller.api.daemonset import DaemonSet, DaemonSetStatus
from controller.runtime.freshness import Reach


class OwnStatus(msgspec.Struct):
    status: DaemonSetStatus | None = None
    """The status that we wrote last; None: the cache shows it."""
    version: int = 0
    """The resourceVersion at which the server stored it; 0: not written yet."""
    at: float = 0.0
    """When the server answered that write (`elapsed`)."""

    def wrote(self, status: DaemonSetStatus, version: str, moment: float) -> None:
        """The server has stored `status` at this resourceVersion; `moment` is `elapsed`."""
        if version.isdigit():
            self.status, self.version, self.at = status, int(version), moment

    def look(self, reach: Reach) -> None:
        """Forget the status if the cache of DaemonSets, which has come to `reach`, must show it by now."""
        if self.status is not None and reach.covers(self.version, self.at):
            self.status = None

    def latest(self, daemonset: DaemonSet) -> tuple[str, DaemonSetStatus | None]:
        """The newest known status, and the version of the object that carries it: the status that we wrote last,
        until the cache shows it or a later one."""
        version = daemonset.version
        if self.status is not None and version.isdigit() and int(version) < self.version:
            return str(self.version), self.status
        return version, daemonset.status
