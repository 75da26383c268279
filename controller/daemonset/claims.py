"""Looks at the server itself, past the caches, where a stale cache would do harm: before an adoption, and when a name
that we derived turns out to be taken."""

from __future__ import annotations

from controller.api.daemonset import DaemonSet
from controller.api.meta import Key
from controller.daemonset.kinds import DAEMONSETS, PODS, REVISIONS
from controller.daemonset.memory import Memory
from controller.kube.client import Client
from controller.kube.errors import Conflict, NotFound
from controller.planner.actions import CreatePod, CreateRevision
from controller.planner.world import Predecessor
from controller.runtime.freshness import Ledger


class Claims:
    """Live reads of one pass, on behalf of one DaemonSet."""

    def __init__(self, client: Client, daemonset: DaemonSet) -> None:
        self._client, self._daemonset = client, daemonset
        self._confirmed = False

    async def check(self) -> None:
        """Re-read the DaemonSet before the first adoption of a pass (upstream.md §2.3).

        Raises Conflict when it is another object by now, or on its way out; NotFound when it is gone.
        """
        if self._confirmed:
            return
        live = await self._client.get(DAEMONSETS, self._daemonset.key)
        if live is None or live.uid != self._daemonset.uid or live.dying:
            raise Conflict(
                "get", f"daemonsets {self._daemonset.key}", "it was deleted or replaced; nothing is adopted"
            )
        self._confirmed = True

    async def look_at_taken_pod(self, action: CreatePod, ledger: Ledger, memory: Memory) -> None:
        """The derived name exists. Ours: the cache is behind, wait for it. Somebody else's: choose another name."""
        try:
            found = await self._client.get(PODS, Key(self._daemonset.namespace, action.name))
        except NotFound:
            return
        if found is not None and found.owner_uid == self._daemonset.uid:
            ledger.wrote(self._daemonset.uid, PODS.name, found.version)
        else:
            memory.predecessors[action.node] = Predecessor(uid=f"not {action.name}", hash="")

    async def look_at_taken_revision(self, action: CreateRevision, ledger: Ledger, memory: Memory) -> None:
        """The computed name exists. Same content: the cache is behind. Other content: count a collision (B-41)."""
        try:
            found = await self._client.get(REVISIONS, Key(self._daemonset.namespace, action.name))
        except NotFound:
            return
        if (
            found is not None
            and found.identity == self._daemonset.identity
            and found.owner_uid in ("", self._daemonset.uid)
        ):
            ledger.wrote(self._daemonset.uid, REVISIONS.name, found.version)
            return
        status = self._daemonset.status
        known = (status.collision_count or 0) if status is not None else 0
        memory.collisions = max(memory.collisions, known) + 1
