"""The world laid out: one slot per node with what runs there, and every number of the pass worked out once.

This loop and the ones over `Board.slots` are the cost of a pass; they stay plain on purpose.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.api import number, selector
from controller.api.base import Value
from controller.api.daemonset import DaemonSet, RollingUpdate
from controller.api.pod import Pod
from controller.api.revision import Revision, new_hash
from controller.planner.eligibility import Fit
from controller.planner.world import World

DEFAULT_BURST = 250


class Slot(Value):
    """One node and our pods on it."""

    node: str
    fit: Fit | None
    """None: the node object is gone."""
    selected: bool
    """Whether `rollingUpdate.selector` lets it be updated."""
    unreachable: bool
    pods: tuple[Pod, ...]
    """Bound before unbound, then oldest first; without those that are both dying and ended."""
    ghosts: tuple[Pod, ...]
    """Those both dying and ended: they hold nothing up, but their names are still taken (D12)."""
    current: Pod | None
    """The first live pod of the current revision; live is neither dying nor ended."""
    old: Pod | None
    """The first live pod of another revision."""
    current_available: bool
    """Ready for minReadySeconds and not held by a hook."""
    old_available: bool

    @property
    def uids(self) -> tuple[str, ...]:
        """Of all our pods here, ghosts too: they go into the name of the next one."""
        return tuple(pod.uid for pod in (*self.pods, *self.ghosts))


class Budget(Value):
    """All limits of the pass in nodes or pods, resolved against one freshly counted desired number (D6)."""

    desired: int
    max_unavailable: int
    max_surge: int
    partition: int
    burst: int


class Board(Value):
    world: World
    revision: Revision
    """The current one; with an empty uid while it is not stored yet."""
    older: tuple[Revision, ...]
    """The other stored ones, newest first."""
    slots: tuple[Slot, ...]
    """By node name, ascending; vanished nodes last."""
    strangers: tuple[Pod, ...]
    """Pods that we control although the selector does not match them."""
    budget: Budget
    next_available: float | None
    """Seconds since 1970: when the next pod that is ready now will have been so for minReadySeconds."""

    @property
    def rolling_update(self) -> RollingUpdate | None:
        return self.world.daemonset.rolling_update

    @property
    def surging(self) -> bool:
        return self.budget.max_surge > 0


def lay_out(world: World) -> Board:
    """Raises ValueError for a malformed selector or number; `validation.problems` finds these first."""
    revision, older = current_revision(world)
    owned, strangers = _split_strangers(world)
    by_node: dict[str, list[Pod]] = {}
    for pod in owned:
        by_node.setdefault(pod.node, []).append(pod)
    by_node.pop("", None)  # aimed at no node that we know: not ours to judge (behaviour.md §5)
    gaze = _Gaze(revision.hash, world.now, world.daemonset.spec.min_ready_seconds)
    rules, nodes = world.rules, world.nodes
    slots = [
        gaze.slot(node.name, fit, selected, bool(node.taints) and node.unreachable, by_node.pop(node.name, ()))
        for node, fit, selected in zip(nodes, rules.fits(nodes), rules.selected(nodes), strict=True)
    ]
    slots += [gaze.slot(name, None, False, False, by_node[name]) for name in sorted(by_node)]
    desired = rules.fits(nodes).count(Fit.RUN)
    return Board(
        world=world,
        revision=revision,
        older=older,
        slots=tuple(slots),
        strangers=strangers,
        budget=budget_of(world.daemonset, desired),
        next_available=gaze.next_available,
    )


def current_revision(world: World) -> tuple[Revision, tuple[Revision, ...]]:
    """The revision that means the same as the template, and all others, newest first.

    Of several with the same meaning the highest number wins. When none is stored yet, the one that will be.
    """
    daemonset = world.daemonset
    stored = sorted(world.revisions, key=lambda one: (one.number, one.name), reverse=True)
    for candidate in stored:
        if candidate.identity == daemonset.identity and not candidate.dying:
            return candidate, tuple(one for one in stored if one is not candidate)
    hash_ = new_hash(daemonset.identity, world.collisions)
    future = Revision(
        namespace=daemonset.namespace,
        name=f"{daemonset.name}-{hash_}",
        uid="",
        version="",
        owner_uid=daemonset.uid,
        owner_index=0,
        labels={"controller-revision-hash": hash_},
        number=stored[0].number + 1 if stored else 1,
        template=daemonset.spec.template,
        identity=daemonset.identity,
    )
    return future, tuple(stored)


def budget_of(daemonset: DaemonSet, desired: int) -> Budget:
    """maxUnavailable and maxSurge round up, partition and burst down; a burst is never 0 (D6).

    Neither limit given means maxUnavailable 1; `Surging` means maxSurge 1. Both resolving to 0 means
    maxUnavailable 1, so that a rollout can always move.
    """
    rolling = daemonset.rolling_update or RollingUpdate()
    surge, unavailable = rolling.max_surge, rolling.max_unavailable
    if rolling.rolling_update_type == "Surging" and surge is None:
        surge = 1
    max_surge = number.scaled(surge, desired, round_up=True)
    max_unavailable = number.scaled(unavailable, desired, round_up=True)
    if daemonset.rolling_update is None:
        max_surge = 0
    if desired and not max_surge and not max_unavailable:
        max_unavailable = 1
    burst = DEFAULT_BURST if daemonset.spec.burst_replicas is None else daemonset.spec.burst_replicas
    return Budget(
        desired=desired,
        max_unavailable=max_unavailable,
        max_surge=max_surge,
        partition=max(number.scaled(rolling.partition, desired, round_up=False), 0),
        burst=max(number.scaled(burst, desired, round_up=False), 1),
    )


def _split_strangers(world: World) -> tuple[Sequence[Pod], tuple[Pod, ...]]:
    matches = selector.parse(world.daemonset.spec.selector)
    known: dict[int, bool] = {}  # label sets are shared between pods: ask once per set
    strangers = []
    for pod in world.pods:
        labels = pod.labels
        ours = known.get(id(labels))
        if ours is None:
            ours = known[id(labels)] = matches(labels)
        if not ours:
            strangers.append(pod)
    if not strangers:
        return world.pods, ()
    uids = {pod.uid for pod in strangers}
    return [pod for pod in world.pods if pod.uid not in uids], tuple(strangers)


def keep_order(pod: Pod) -> tuple[bool, float, str]:
    """Which of several pods on a node is kept: bound before unbound, then the oldest, then by name."""
    return (not pod.bound, pod.created, pod.name)


class _Gaze:
    """Turns the pods of one node into a slot; remembers the earliest moment at which one becomes available."""

    def __init__(self, current_hash: str, now: float, min_ready_seconds: int) -> None:
        self._hash = current_hash
        self._now = now
        self._min_ready = min_ready_seconds
        self.next_available: float | None = None

    def slot(self, node: str, fit: Fit | None, selected: bool, unreachable: bool, pods: Sequence[Pod]) -> Slot:
        ghosts: tuple[Pod, ...] = ()
        if len(pods) > 1 or (pods and pods[0].dying):
            ghosts = tuple(pod for pod in pods if pod.dying and pod.ended)
            pods = sorted((pod for pod in pods if not (pod.dying and pod.ended)), key=keep_order)
        current: Pod | None = None
        old: Pod | None = None
        for pod in pods:
            if pod.dying or pod.ended:
                continue
            if pod.hash == self._hash:
                current = current or pod
            else:
                old = old or pod
        return Slot(
            node=node,
            fit=fit,
            selected=selected,
            unreachable=unreachable,
            pods=tuple(pods),
            ghosts=ghosts,
            current=current,
            old=old,
            current_available=current is not None and self._is_available(current),
            old_available=old is not None and self._is_available(old),
        )

    def _is_available(self, pod: Pod) -> bool:
        if not pod.ready or pod.held:
            return False
        if not self._min_ready:
            return True
        moment = pod.available_at(self._min_ready)
        if moment is None or moment < self._now:
            return moment is not None
        if self.next_available is None or moment < self.next_available:
            self.next_available = moment
        return False
