"""Measures how long the update of each node takes: from the decision until its new or changed pod is available."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

Method = Literal["in_place", "recreate", "surge"]
METHODS: tuple[Method, ...] = ("in_place", "recreate", "surge")


class _Update(msgspec.Struct):
    method: Method
    began: float
    pod: tuple[str, str] = ("", "")
    """Name and revision hash of the new pod; empty: it is not created yet."""
    available_at: float | None = None
    """When the pod will have been ready for minReadySeconds; None: it is not ready."""


class NodeUpdates:
    """The updates in progress, by DaemonSet uid and node. All times are seconds of one clock."""

    def __init__(self, ended: Callable[[Method, float], None]) -> None:
        """`ended` is called once for each finished update, with its method and its seconds."""
        self._ended = ended
        self._open: dict[str, dict[str, _Update]] = {}
        """The updates by node, then by uid, because thousands of nodes may be removed at once."""

    def began(self, uid: str, node: str, method: Method, now: float) -> None:
        """Begin an update: the old pod was deleted, or a pod was created beside it. A later one begins anew."""
        self._settle(uid, node, now)
        self._open.setdefault(node, {})[uid] = _Update(method, now)

    def created(self, uid: str, node: str, pod: str, revision_hash: str) -> None:
        """Note the new pod, created or changed to this revision."""
        update = self._of(uid, node)
        if update is not None:
            update.pod = pod, revision_hash

    def seen(
        self, uid: str, node: str, pod: str, revision_hash: str, *, ready: bool, wait: float, now: float
    ) -> None:
        """Note a pod in the cache; most belong to no update. `wait`: seconds until it counts as available."""
        self._settle(uid, node, now)
        update = self._of(uid, node)
        if update is None or update.pod != (pod, revision_hash):
            return
        if not ready:
            update.available_at = None
        elif update.available_at is None:
            update.available_at = now + wait

    def settle(self, now: float) -> None:
        """End all updates whose pod is available by now."""
        for node, updates in tuple(self._open.items()):
            for uid in tuple(updates):
                self._settle(uid, node, now)

    def drop(self, uid: str, node: str) -> None:
        updates = self._open.get(node)
        if updates is not None:
            updates.pop(uid, None)
            if not updates:
                del self._open[node]

    def forget_node(self, node: str) -> None:
        """Forget a node that is gone."""
        self._open.pop(node, None)

    def forget(self, uid: str) -> None:
        for node in tuple(self._open):
            self.drop(uid, node)

    def _of(self, uid: str, node: str) -> _Update | None:
        updates = self._open.get(node)
        return None if updates is None else updates.get(uid)

    def _settle(self, uid: str, node: str, now: float) -> None:
        """End the update if its pod is available by now, whatever happens later."""
        update = self._of(uid, node)
        if update is not None and update.available_at is not None and update.available_at <= now:
            self.drop(uid, node)
            self._ended(update.method, update.available_at - update.began)
