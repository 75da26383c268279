"""A NodeInfo is one node with our pods on it. This is the only place that knows what a pod on a node counts for."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from controller.api.names import HASH_LABEL
from controller.api.node import Node
from controller.api.objects import Value
from controller.api.pod import Pod
from controller.planner.node_fit import Fit
from controller.planner.world import World

PROVEN_SECONDS = 3.0
"""Seconds that a restarted container must run, in a pod that was updated in place, before the pod counts as
available. A kubelet calls a container without a readiness probe ready as soon as it starts, even if it ends at once;
within this time its end is known, and no further node is updated. In fact it is 2 to 3 s, because starts are given in
whole seconds."""


class NodeInfo(Value):
    name: str
    object: Node | None
    """None: it is gone."""
    fit: Fit | None
    """None: the node is gone."""
    selected: bool
    """Whether `rollingUpdate.selector` allows updates here."""
    unreachable: bool
    pods: tuple[Pod, ...]
    """Our pods here: bound before unbound, then oldest first; without those that are both dying and ended."""
    removed: tuple[Pod, ...]
    """Pods that are both dying and ended: they hold nothing up, but their names are still taken."""
    current: Pod | None
    """The live pod of the current revision; of several an available one, else the first; None: there is none. Live
    means neither dying nor ended."""
    old: Pod | None
    """The live pod of another revision, chosen in the same way."""
    current_available: bool
    """Whether `current` is available: ready for minReadySeconds, not held by a hook nor in the middle of an
    update."""
    old_available: bool
    had_current: bool
    """Whether a pod of the current revision is here, live or not; if no pod is here, whether the last one was of
    it."""
    had_old: bool
    """The same for any other revision. If `had_current` is False too, no pod was ever seen here."""
    last: str | None
    """The revision hash of the last pod, if none is live: dying, ended or gone. None: not known, or one is live."""

    @property
    def available(self) -> bool:
        """Whether the node has an available pod."""
        return self.current_available or self.old_available

    @property
    def old_ready(self) -> bool:
        """Whether the old pod gets traffic: it is available, or Ready and only younger than minReadySeconds."""
        old = self.old
        return self.old_available or (old is not None and old.ready and not old.held_by_hook and old.underway is None)

    @property
    def only_old(self) -> bool:
        """Whether a live old pod is here and no live current one."""
        return self.old is not None and self.current is None

    @property
    def paired(self) -> bool:
        """Whether the node is in the middle of a surge: it has a live pod of each kind."""
        return self.current is not None and self.old is not None

    @property
    def live(self) -> list[Pod]:
        return [pod for pod in self.pods if not pod.dying and not pod.ended]

    @property
    def ended(self) -> list[Pod]:
        """Pods that have ended and are not being deleted: no other pod is created before they are gone."""
        return [pod for pod in self.pods if pod.ended]

    @property
    def single(self) -> bool:
        """Whether there is at most one live pod; a second old one that a hook holds leaves no room for a third."""
        return len(self.live) <= 1

    @property
    def uids(self) -> tuple[str, ...]:
        """The uids of all our pods here, including `removed`: they go into the name of the next pod."""
        return tuple([pod.uid for pod in (*self.pods, *self.removed)])


class NodeReader:
    """Makes nodes, and remembers the earliest moment at which a pod becomes available."""

    def __init__(self, world: World, current_hash: str) -> None:
        self._hash = current_hash
        self._now = world.now
        self._min_ready = world.daemonset.spec.min_ready_seconds
        self._ready_seen, self._restarts_seen = world.ready_seen, world.restarts_seen
        self._gone = {node: gone.pod for node, gone in world.predecessors.items() if gone.pod is not None}
        self.next_available: float | None = None
        """When the next pod that is ready now becomes available by minReadySeconds (seconds since 1970); None: none
        waits."""

    def node(
        self,
        name: str,
        pods: Sequence[Pod],
        *,
        node: Node | None = None,
        fit: Fit | None = None,
        selected: bool = False,
    ) -> NodeInfo:
        """The `NodeInfo` of a node, by its name and our pods there. Without `node` the node is gone."""
        removed: Sequence[Pod] = ()
        if len(pods) > 1 or (pods and pods[0].dying):
            pods, removed = _without_removed(pods)
        current: Pod | None = None
        old: Pod | None = None
        current_available = old_available = had_current = had_old = False
        for pod in pods:
            if pod.labels.get(HASH_LABEL) == self._hash:
                had_current = True
                if not (current_available or pod.dying or pod.ended):
                    current_available = self._is_available(pod)
                    if current is None or current_available:
                        current = pod
            else:
                had_old = True
                if not (old_available or pod.dying or pod.ended):
                    old_available = self._is_available(pod)
                    if old is None or old_available:
                        old = pod
        last = self._last(name, pods, removed) if current is None and old is None else None
        if last is not None and not pods:
            had_current, had_old = last == self._hash, last != self._hash
        return NodeInfo(
            name=name,
            object=node,
            fit=fit,
            selected=selected,
            unreachable=node is not None and bool(node.taints) and node.unreachable,
            pods=tuple(pods),
            removed=tuple(removed),
            current=current,
            old=old,
            current_available=current_available,
            old_available=old_available,
            had_current=had_current,
            had_old=had_old,
            last=last,
        )

    def _last(self, node: str, pods: Sequence[Pod], removed: Sequence[Pod]) -> str | None:
        """The revision hash of the youngest pod here, or of the one that is gone if that was younger; None:
        unknown."""
        youngest = max(pods or removed, key=lambda pod: (pod.created, pod.name), default=None)
        gone = None if pods else self._gone.get(node)
        if gone is not None and (youngest is None or gone.created > youngest.created):
            return gone.hash
        return youngest.hash if youngest is not None else None

    def _is_available(self, live: Pod) -> bool:
        """Whether a live pod is available. With minReadySeconds that is *after* the moment at which it has been ready
        for so long: the native controller compares strictly."""
        if not live.ready or live.held_by_hook:
            return False
        if live.underway is not None and live.underway.lasts(self._now):
            return self._awaits(live.underway.until)
        restarted_at = live.restarted_at if live.updated_in_place else None
        if not self._min_ready and restarted_at is None:
            return True
        moment = -inf if restarted_at is None else self._restarted(live, restarted_at) + PROVEN_SECONDS
        if self._min_ready:
            if live.ready_since is None:
                return False
            moment = max(moment, self._seen(live, live.ready_since) + self._min_ready)
        return moment < self._now or self._awaits(moment)

    def _seen(self, live: Pod, said: float) -> float:
        """Since when the pod is ready, but not later than we saw it: the clock of the node may be ahead."""
        return min(said, self._ready_seen.get(live.uid, said)) if self._ready_seen else said

    def _restarted(self, live: Pod, said: float) -> float:
        """When its container restarted, at most a second (rounding) before we saw it: the node may be behind."""
        seen = self._restarts_seen.get(live.uid)
        return self._seen(live, said) if seen is None else max(min(said, seen), seen - 1)

    def _awaits(self, moment: float) -> bool:
        if moment < inf and (self.next_available is None or moment < self.next_available):
            self.next_available = moment
        return False


def _without_removed(pods: Sequence[Pod]) -> tuple[Sequence[Pod], Sequence[Pod]]:
    """The pods in the order in which they count, without those that are both dying and ended; and these."""
    there = (pod for pod in pods if not (pod.dying and pod.ended))
    removed = [pod for pod in pods if pod.dying and pod.ended]
    return sorted(there, key=lambda pod: (not pod.bound, pod.created, pod.name)), removed
