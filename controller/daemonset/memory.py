"""What the controller remembers about one DaemonSet between passes.

Nothing here is needed to be right, only to be quick or polite: after a restart it starts empty, and the cluster's
own state says the rest.
"""

from __future__ import annotations

import msgspec

from controller.api.daemonset import DaemonSet, DaemonSetStatus
from controller.api.revision import Revision
from controller.planner.eligibility import Rules
from controller.planner.manifest import Mold
from controller.planner.rollout import ASK_AGAIN_SECONDS
from controller.planner.world import Predecessor


class Memory(msgspec.Struct):
    """Of one DaemonSet uid."""

    generation: int = -1
    rules: Rules | None = None
    molds: dict[str, Mold] = msgspec.field(default_factory=dict)
    """Revision hash to the mold of its pods, for this generation."""
    predecessors: dict[str, Predecessor] = msgspec.field(default_factory=dict)
    """Node to the pod that was seen there last and is gone."""
    verdicts: dict[str, str] = msgspec.field(default_factory=dict)
    """Revision hash to what the server's dry run said; "" is yes. A "no" is forgotten after a while."""
    refused_at: float = 0.0
    """Seconds since 1970: when the last "no" was said."""
    proven: str = ""
    """Hash of the revision of which the server has accepted a whole batch: no slow start for it any more."""
    collisions: int = 0
    eager: bool = False
    """The last pass left more to do, now or once pods are available: what it waits for is looked at soon."""
    trouble: str = ""
    """What the last failed write was told by the server; empty after a pass without failures."""
    status: DaemonSetStatus | None = None
    """The status as we wrote it last …"""
    status_version: int = 0
    """… and the version at which the server stored it; 0 = not written yet."""

    def rules_of(self, daemonset: DaemonSet) -> Rules:
        """The compiled placement rules of this generation. Raises ValueError for what cannot be compiled."""
        if self.rules is None or self.generation != daemonset.generation:
            rolling = daemonset.rolling_update
            self.rules = Rules(daemonset.spec.template, rolling.selector if rolling else None)
            self.generation = daemonset.generation
            self.molds.clear()
            self.refused_at = 0.0
        return self.rules

    def forget_refusals(self, now: float) -> None:
        """A "no" of some time ago is no answer any more."""
        if now - self.refused_at >= ASK_AGAIN_SECONDS:
            self.verdicts = {hash_: verdict for hash_, verdict in self.verdicts.items() if not verdict}

    def mold_of(self, daemonset: DaemonSet, revision: Revision) -> Mold:
        mold = self.molds.get(revision.hash)
        if mold is None:
            mold = self.molds[revision.hash] = Mold(daemonset, revision)
        return mold


class Memories:
    """The memory of every DaemonSet, by uid: a successor of the same name starts with a clean one."""

    def __init__(self) -> None:
        self._by_uid: dict[str, Memory] = {}

    def of(self, uid: str) -> Memory:
        memory = self._by_uid.get(uid)
        if memory is None:
            memory = self._by_uid[uid] = Memory()
        return memory

    def forget(self, uid: str) -> None:
        self._by_uid.pop(uid, None)
