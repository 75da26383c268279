"""One node with the pods of the DaemonSet on it: which pod counts as current, as old, as available."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from controller.api.names import HASH_LABEL, LIFECYCLE_STATE_LABEL
from controller.api.node import Node
from controller.api.objects import Value
from controller.api.pod import ENDED, Pod
from controller.planner.node_fit import Fit
from controller.planner.world import World, split_unmatched

PROVEN_SECONDS = 3.0
"""Seconds that a restarted container must run (2 to 3, as start times are whole seconds) before its pod is available.
Without a readiness probe, the kubelet reports it ready as soon as it starts, even if it ends at once."""


class NodeInfo(Value):
    name: str
    object: Node | None
    fit: Fit | None
    """None, like `object`, if the node is gone."""
    selected: bool
    unreachable: bool
    pods: tuple[Pod, ...]
    """The pods here without `removed`: bound ones first, then ready ones, then those that are not prepared for their
    deletion, so that of two alike the same one goes in each pass; then the oldest."""
    removed: tuple[Pod, ...]
    """Pods that are both terminating and ended: nothing waits for them, but their names are still taken."""
    current: Pod | None
    """The live pod of the current revision, available ones first. Live means neither terminating nor ended."""
    old: Pod | None
    """The live pod of another revision, available ones first."""
    current_available: bool
    """Ready for minReadySeconds, not held by a hook, and not in the middle of an update in place."""
    old_available: bool
    had_current: bool
    """Whether a pod of the current revision is here, live or not; on an empty node, whether the last one was."""
    had_old: bool
    """As `had_current` for other revisions. Both are False if no pod was ever seen here."""
    last: str | None
    """The revision hash of the last pod if none is live; None: unknown."""

    @property
    def available(self) -> bool:
        return self.current_available or self.old_available

    @property
    def old_ready(self) -> bool:
        """Whether the old pod gets traffic: it is available, or Ready and only younger than minReadySeconds."""
        old = self.old
        return self.old_available or (
            old is not None and old.ready and not old.held_by_hook and old.in_progress is None
        )

    @property
    def is_going(self) -> bool:
        """Whether the node itself is being deleted."""
        return self.object is None or self.object.terminating

    @property
    def only_old_unready(self) -> bool:
        """Whether the node has only an old pod, which is not Ready although nothing is done to it."""
        old = self.old
        if old is None or self.current is not None or self.old_ready:
            return False
        return not (old.held_by_hook or old.marked_not_ready or old.draining or old.in_progress is not None)

    @property
    def only_old(self) -> bool:
        return self.old is not None and self.current is None

    @property
    def paired(self) -> bool:
        """Whether the node has a live pod of each kind, as in the middle of a surge."""
        return self.current is not None and self.old is not None

    @property
    def old_only_held(self) -> bool:
        """Whether only the preparation for its deletion keeps the old pod from being ready."""
        old = self.old
        return old is not None and old.ready_ignoring_hook and (old.held_by_hook or old.marked_not_ready)

    def awaits_retry(self, current: str) -> bool:
        """Whether a failed pod of the `current` hash beside a live old one is kept until its back-off is over."""
        if self.old is None or not self.had_current:
            return False
        return any(pod.ended and pod.hash == current for pod in self.pods)

    @property
    def live(self) -> list[Pod]:
        return [pod for pod in self.pods if not pod.terminating and not pod.ended]

    @property
    def ended(self) -> list[Pod]:
        """Pods that have ended and are not being deleted; they go before another pod is created."""
        return [pod for pod in self.pods if pod.ended]

    @property
    def uids(self) -> tuple[str, ...]:
        """The uids of all pods here, `removed` ones too, which go into the name of the next pod."""
        return tuple([pod.uid for pod in (*self.pods, *self.removed)])


def read_nodes(world: World, current_hash: str) -> tuple[tuple[NodeInfo, ...], tuple[Pod, ...], float | None]:
    """All nodes, as in `RolloutState.nodes`, the pods that the selector does not match, and when the next pod that is
    ready becomes available (seconds since 1970)."""
    owned, unmatched = split_unmatched(world)
    by_node: dict[str, tuple[Pod, ...]] = {}
    for pod in owned:
        by_node[pod.node] = (*by_node[pod.node], pod) if pod.node in by_node else (pod,)
    by_node.pop("", None)  # such a pod names no node, so nothing can be decided about it
    reader, evaluated = _Reader(world, current_hash), world.rules.evaluate(world.nodes)
    nodes = [
        reader.node(node.name, by_node.pop(node.name, ()), node, fit, selected)
        for node, fit, selected in zip(world.nodes, evaluated.fits, evaluated.selected, strict=True)
    ]
    nodes += [reader.node(name, by_node[name]) for name in sorted(by_node)]
    return tuple(nodes), unmatched, reader.next_available


class _Reader:
    def __init__(self, world: World, current_hash: str) -> None:
        self._hash = current_hash
        self._now = world.now
        self._min_ready = world.daemonset.spec.min_ready_seconds
        self._ready_seen, self._restarts_seen = world.ready_seen, world.restarts_seen
        self._predecessors = world.predecessors
        self.next_available: float | None = None

    def node(
        self,
        name: str,
        pods: tuple[Pod, ...],
        node: Node | None = None,
        fit: Fit | None = None,
        selected: bool = False,
    ) -> NodeInfo:
        removed: tuple[Pod, ...] = ()
        if len(pods) > 1 or (pods and pods[0].terminating):
            pods, removed = _without_removed(pods)
        current: Pod | None = None
        old: Pod | None = None
        current_available = old_available = had_current = had_old = False
        for pod in pods:
            ended = pod.phase in ENDED
            if pod.labels.get(HASH_LABEL) == self._hash:
                had_current = True
                if not (current_available or pod.terminating or ended):
                    current_available = self._is_available(pod)
                    if current is None or current_available:
                        current = pod
            else:
                had_old = True
                if not (old_available or pod.terminating or ended):
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
            pods=pods,
            removed=removed,
            current=current,
            old=old,
            current_available=current_available,
            old_available=old_available,
            had_current=had_current,
            had_old=had_old,
            last=last,
        )

    def _last(self, node: str, pods: Sequence[Pod], removed: Sequence[Pod]) -> str | None:
        """The revision hash of the youngest pod, present or gone; None: unknown."""
        youngest = max(pods or removed, key=lambda pod: (pod.created, pod.name), default=None)
        predecessor = None if pods else self._predecessors.get(node)
        gone = None if predecessor is None else predecessor.pod
        if gone is not None and (youngest is None or gone.created > youngest.created):
            return gone.hash
        return youngest.hash if youngest is not None else None

    def _is_available(self, live: Pod) -> bool:
        """As in the native controller, `minReadySeconds` must have passed, not only be reached."""
        if not live.ready or (LIFECYCLE_STATE_LABEL in live.labels and live.held_by_hook):
            return False
        if live.in_progress is not None and live.in_progress.is_pending(self._now):
            return self._awaits(live.in_progress.until)
        restarted_at = live.restarted_at
        if restarted_at is not None and not live.updated_in_place:
            restarted_at = None
        if not self._min_ready and restarted_at is None:
            return True
        moment = -inf if restarted_at is None else self._restarted(live, restarted_at) + PROVEN_SECONDS
        if self._min_ready:
            if live.ready_since is None:
                return False
            moment = max(moment, self._seen(live, live.ready_since) + self._min_ready)
        return moment < self._now or self._awaits(moment)

    def _seen(self, live: Pod, reported: float) -> float:
        """When the pod became ready, but not after this was seen: the node's clock may be ahead."""
        return min(reported, self._ready_seen.get(live.uid, reported)) if self._ready_seen else reported

    def _restarted(self, live: Pod, reported: float) -> float:
        """When its container restarted, but not more than a second before this was seen: the clock may be behind."""
        seen = self._restarts_seen.get(live.uid)
        return self._seen(live, reported) if seen is None else max(min(reported, seen), seen - 1)

    def _awaits(self, moment: float) -> bool:
        if moment < inf and (self.next_available is None or moment < self.next_available):
            self.next_available = moment
        return False


def _without_removed(pods: Sequence[Pod]) -> tuple[tuple[Pod, ...], tuple[Pod, ...]]:
    """The pods in order of precedence, and those that are both terminating and ended."""
    there = (pod for pod in pods if not (pod.terminating and pod.ended))
    removed = tuple([pod for pod in pods if pod.terminating and pod.ended])
    return tuple(sorted(there, key=_precedence)), removed


def _precedence(pod: Pod) -> tuple[bool, bool, bool, float, str]:
    return not pod.bound, not pod.ready_ignoring_hook, pod.held_by_hook, pod.created, pod.name
