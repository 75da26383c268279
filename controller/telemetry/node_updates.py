"""How long each node waited for its new pod, or for its pod as it was updated: from the decision, until that pod was
available."""

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
    """Name and revision hash of the new pod; empty until it is created."""
    available_at: float | None = None
    """When it will have been ready for minReadySeconds; None while it is not ready."""


class NodeUpdates:
    """Updates on their way, by DaemonSet uid and node. All times in seconds of one clock."""

    def __init__(self, ended: Callable[[Method, float], None]) -> None:
        """`ended` is told the method and the seconds of each update that is through, once."""
        self._ended = ended
        self._open: dict[str, dict[str, _Update]] = {}
        """By node, then by uid: nodes go by the thousand."""

    def began(self, uid: str, node: str, method: Method, now: float) -> None:
        """The node's old pod was deleted, or a pod was put beside it; a later decision begins anew."""
        self._settle(uid, node, now)
        self._open.setdefault(node, {})[uid] = _Update(method, now)

    def created(self, uid: str, node: str, pod: str, revision_hash: str) -> None:
        """Or changed to that revision."""
        update = self._of(uid, node)
        if update is not None:
            update.pod = pod, revision_hash

    def seen(
        self, uid: str, node: str, pod: str, revision_hash: str, *, ready: bool, wait: float, now: float
    ) -> None:
        """The cache shows a pod; most are of no update. `wait`: until it counts as available."""
        self._settle(uid, node, now)
        update = self._of(uid, node)
        if update is None or update.pod != (pod, revision_hash):
            return
        if not ready:
            update.available_at = None
        elif update.available_at is None:
            update.available_at = now + wait

    def settle(self, now: float) -> None:
        """Tell of all that are through."""
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
        """The node is gone, and its updates with it."""
        self._open.pop(node, None)

    def forget(self, uid: str) -> None:
        for node in tuple(self._open):
            self.drop(uid, node)

    def _of(self, uid: str, node: str) -> _Update | None:
        updates = self._open.get(node)
        return None if updates is None else updates.get(uid)

    def _settle(self, uid: str, node: str, now: float) -> None:
        """Whatever comes later, a new pod that was available by now has ended its update."""
        update = self._of(uid, node)
        if update is not None and update.available_at is not None and update.available_at <= now:
            self.drop(uid, node)
            self._ended(update.method, update.available_at - update.began)
