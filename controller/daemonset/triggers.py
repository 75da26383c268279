"""From a change in a store to the DaemonSets that have to be looked at, each with a reason (behaviour.md §4.2).

Handlers only enqueue. `urgent` is what leaves a node without its pod or changes what is wanted; everything else only
changes counts and is looked at in batches (`runtime/pacing.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from controller.api.daemonset import DaemonSet
from controller.api.meta import Key
from controller.api.node import Node
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.daemonset.caches import Caches
from controller.daemonset.memory import Memories
from controller.planner.actions import ROOM
from controller.planner.eligibility import Fit, Rules
from controller.planner.world import Predecessor
from controller.runtime.pacing import Urgency
from controller.runtime.store import Change


class Enqueue(Protocol):
    """Puts a DaemonSet into the work queue, at once or after the rest that its last pass earned."""

    def __call__(self, key: Key, urgency: Urgency, reason: str) -> None: ...


class Triggers:
    def __init__(
        self,
        caches: Caches,
        memories: Memories,
        enqueue: Enqueue,
        forget: Callable[[str], None],
        forget_node: Callable[[str], None],
        see: Callable[[Pod], None] = lambda pod: None,
        foreign: Callable[[DaemonSet, str], None] = lambda daemonset, manager: None,
    ) -> None:
        """`forget` is told the uid of every DaemonSet that is gone, `forget_node` the name of every node that
        is; `see` every change of an owned pod; `foreign` who else has written a status.
        """
        self._forget_node = forget_node
        self._see, self._foreign = see, foreign
        self._caches, self._memories, self._enqueue, self._forget = caches, memories, enqueue, forget

    def on_daemonset(self, change: Change[DaemonSet]) -> None:
        old, new = change.old, change.new
        if old is not None and new is None:
            self._forget(old.uid)
        if old is not None and new is not None and (rival := new.status_writers.rival_since(old.status_writers)):
            self._foreign(new, rival)
        same_wish = (
            old is not None
            and new is not None
            and (old.generation, old.dying, old.annotations) == (new.generation, new.dying, new.annotations)
        )
        if same_wish and new is not None and new.version == str(self._memories.of(new.uid).status_version):
            return  # our own status write coming back
        self._enqueue(change.key, "lazy" if same_wish else "urgent", "daemonset changed")

    def on_pod(self, change: Change[Pod]) -> None:
        """Owned pods wake their owner, old and new; pods that lost their owner wake whoever matches them."""
        old, new = change.old, change.new
        if old is not None and old.owner_uid and (new is None or new.owner_uid != old.owner_uid):
            self._remember(old)
            self._wake_owner(old, "urgent", f"pod {old.name} gone")
        if new is None:
            return
        if new.owner_uid:
            self._see(new)
            self._wake_owner(new, self._urgency(old, new), f"pod {new.name} changed")
        elif old is None or old.owner_uid or old.labels != new.labels:
            self._wake_matching(new)

    def on_node(self, change: Change[Node]) -> None:
        """Only DaemonSets whose verdict about this node changes are woken.

        A node that comes or goes is no change for one that wants no pod there, unless there is a pod after all.
        """
        old, new = change.old, change.new
        if old is not None and new is not None and old.same_placement(new):
            return
        self._caches.fleet.changed()
        owners = self._caches.owners_on(change.key.name)
        for daemonset in self._caches.daemonsets.values():
            try:
                rules = self._memories.of(daemonset.uid).rules_of(daemonset)
            except ValueError:
                continue  # reported by its own pass
            before, after = _verdict(rules, old), _verdict(rules, new)
            if before == after:
                continue
            if {before, after} <= UNWANTED and daemonset.uid not in owners:
                continue
            self._enqueue(daemonset.key, "urgent", f"node {change.key.name} changed")
        if new is None:
            self._memories.forget_node(change.key.name)
            self._forget_node(change.key.name)

    def on_revision(self, change: Change[Revision]) -> None:
        """A revision that vanished or appeared from elsewhere may have to be made or claimed."""
        for revision in {one.uid: one for one in (change.old, change.new) if one is not None}.values():
            if revision.owner_uid:
                owner = self._caches.daemonset_of(revision.owner_uid)
                if owner is not None:
                    self._enqueue(owner.key, "urgent", f"revision {revision.name} changed")
            elif change.new is not None:
                for daemonset in self._caches.matching(revision.namespace, revision.labels):
                    self._enqueue(daemonset.key, "urgent", f"orphan revision {revision.name}")

    def on_server_back(self) -> None:
        """Whoever failed while the server was away need not wait for the end of a long back-off."""
        for daemonset in self._caches.daemonsets.values():
            self._enqueue(daemonset.key, "urgent", "server back")

    def _urgency(self, old: Pod | None, new: Pod) -> Urgency:
        """Our own pod coming back is no news, unless the pass that made it left more to do."""
        if new.dying:
            return "lazy"
        if old is not None and (new.ended or new.labels is not old.labels):
            return "urgent"
        owner = self._caches.daemonset_of(new.owner_uid)
        return "soon" if owner is not None and self._memories.of(owner.uid).eager else "lazy"

    def _wake_owner(self, pod: Pod, urgency: Urgency, reason: str) -> None:
        owner = self._caches.daemonset_of(pod.owner_uid)
        if owner is not None:
            self._enqueue(owner.key, urgency, reason)

    def _wake_matching(self, pod: Pod) -> None:
        for daemonset in self._caches.matching(pod.namespace, pod.labels):
            self._enqueue(daemonset.key, "urgent", f"orphan pod {pod.name}")

    def _remember(self, gone: Pod) -> None:
        known = self._caches.nodes.get(Key("", gone.node)) is not None
        if known and self._caches.daemonset_of(gone.owner_uid) is not None:
            memory = self._memories.of(gone.owner_uid)
            memory.predecessors[gone.node] = Predecessor(uid=gone.uid, hash=gone.hash, created=gone.created)
            memory.failing.pop(ROOM, None)  # whatever quota was full has room for one now


Verdict: TypeAlias = tuple[Fit | None, bool, bool]
"""Whether a pod should run on a node, may be updated there, and whether the node is silent."""

GONE: Verdict = (None, False, False)
UNWANTED: frozenset[Verdict] = frozenset({GONE, (Fit.LEAVE, False, False)})


def _verdict(rules: Rules, node: Node | None) -> Verdict:
    if node is None:
        return GONE
    fit = rules.fit(node)
    return (fit, False, False) if fit is Fit.LEAVE else (fit, rules.selects(node), node.unreachable)
