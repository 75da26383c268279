"""One node and our pods on it, read once: the only place that knows what a pod on a node counts for."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from controller.api.base import Value
from controller.api.pod import Pod
from controller.api.wellknown import HASH_LABEL
from controller.planner.eligibility import Fit
from controller.planner.world import World

PROVEN_SECONDS = 3.0
"""For so long a container that was started again has to run, in a pod that was updated in place, before its pod
counts as available. A kubelet calls a container without a readiness probe ready as soon as it is started, also one
that ends at once: within this time it has ended and that was told, and the next node is not updated. It is two to
three: starts are told in whole seconds."""


class Slot(Value):
    node: str
    fit: Fit | None
    """None: the node object is gone."""
    selected: bool
    """Whether `rollingUpdate.selector` lets it be updated."""
    unreachable: bool
    pods: tuple[Pod, ...]
    """Bound before unbound, then oldest first; without those that are both dying and ended."""
    removed: tuple[Pod, ...]
    """Those both dying and ended: they hold nothing up, but their names are still taken."""
    current: Pod | None
    """The live pod of the current revision; of several an available one, else the first. Live is neither dying nor
    ended."""
    old: Pod | None
    """The live pod of another revision, chosen likewise."""
    current_available: bool
    """Ready for minReadySeconds and not held by a hook."""
    old_available: bool
    had_current: bool
    """A pod of the current revision is here, live or not; or none is, and the last one seen here was."""
    had_old: bool
    """A pod of another revision is here, live or not; or none is, and the last one seen here was. Where `had_current`
    is False too, no pod was ever seen here."""
    last: str | None
    """Without a live pod: revision hash of the last one, which is dying, has ended or is gone. None: not known."""

    @property
    def serves(self) -> bool:
        """Whether the node has an available pod."""
        return self.current_available or self.old_available

    @property
    def only_old(self) -> bool:
        """Whether a live old pod is here and no live current one."""
        return self.old is not None and self.current is None

    @property
    def paired(self) -> bool:
        """Whether it is in the middle of a surge: a live pod of each kind."""
        return self.current is not None and self.old is not None

    @property
    def live(self) -> list[Pod]:
        return [pod for pod in self.pods if not pod.dying and not pod.ended]

    @property
    def ended(self) -> list[Pod]:
        """Those that are not dying: no other pod comes before they are gone."""
        return [pod for pod in self.pods if pod.ended]

    @property
    def single(self) -> bool:
        """Whether one live pod at most is here: an old one too many, held by a hook, leaves no room for a third."""
        return len(self.live) <= 1

    @property
    def uids(self) -> tuple[str, ...]:
        """Of all our pods here, the ended ones that are being removed too: they go into the name of the next one."""
        return tuple([pod.uid for pod in (*self.pods, *self.removed)])


def keep_order(pod: Pod) -> tuple[bool, float, str]:
    """Which of several pods on a node is kept: bound before unbound, then the oldest, then by name."""
    return (not pod.bound, pod.created, pod.name)


class SlotReader:
    """Turns the pods of one node into a slot; remembers the earliest moment at which one becomes available."""

    def __init__(self, world: World, current_hash: str) -> None:
        self._hash = current_hash
        self._now = world.now
        self._min_ready = world.daemonset.spec.min_ready_seconds
        self._ready_seen, self._restarts_seen = world.ready_seen, world.restarts_seen
        self._gone = {node: gone.pod for node, gone in world.predecessors.items() if gone.pod is not None}
        self.next_available: float | None = None
        """Seconds since 1970: when the next pod that is ready now will have been so for minReadySeconds."""

    def slot(self, node: str, fit: Fit | None, selected: bool, unreachable: bool, pods: Sequence[Pod]) -> Slot:
        removed: tuple[Pod, ...] = ()
        if len(pods) > 1 or (pods and pods[0].dying):
            removed = tuple(pod for pod in pods if pod.dying and pod.ended)
            pods = sorted((pod for pod in pods if not (pod.dying and pod.ended)), key=keep_order)
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
        last: str | None = None
        if current is None and old is None:
            last = self._last(node, pods, removed)
            if not pods and last is not None:
                had_current = last == self._hash
                had_old = not had_current
        return Slot(
            node=node,
            fit=fit,
            selected=selected,
            unreachable=unreachable,
            pods=tuple(pods),
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
        """Of those that are there, or of the one that is gone if it was younger than those that are being removed."""
        youngest = max(pods or removed, key=lambda pod: (pod.created, pod.name), default=None)
        gone = None if pods else self._gone.get(node)
        if gone is not None and (youngest is None or gone.created > youngest.created):
            return gone.hash
        return youngest.hash if youngest is not None else None

    def _is_available(self, live: Pod) -> bool:
        """With minReadySeconds a pod is available *after* the moment at which it has been ready for so long: the
        reference compares strictly."""
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
        """Not later than we saw it: the node's clock may be ahead."""
        return min(said, self._ready_seen.get(live.uid, said)) if self._ready_seen else said

    def _restarted(self, live: Pod, said: float) -> float:
        """Nor more than a second, by which it is rounded, before we saw it: the node's clock may be behind."""
        seen = self._restarts_seen.get(live.uid)
        return self._seen(live, said) if seen is None else max(min(said, seen), seen - 1)

    def _awaits(self, moment: float) -> bool:
        if moment < inf and (self.next_available is None or moment < self.next_available):
            self.next_available = moment
        return False
