"""The world laid out: one slot per node with what runs there, and every number of the pass worked out once.

This loop and the ones over `Board.slots` are the cost of a pass; they stay plain on purpose, without properties, and
look up a member of an enumeration once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import msgspec

from controller.api.base import Value
from controller.api.daemonset import RollingUpdate
from controller.api.pod import Pod
from controller.api.revision import Revision, new_hash
from controller.planner.budget import Budget, budget_of
from controller.planner.eligibility import Fit
from controller.planner.fallback import Fallback
from controller.planner.quota import is_frozen, nodes_for_current, surplus_of
from controller.planner.slot import Slot, SlotReader
from controller.planner.world import TemplateRefused, TemplateVerdict, Unasked, World, split_unmatched

_UNASKED = Unasked()


class Board(Value, dict=True, gc=True):
    """`dict=True` holds the cached properties, and must be visible to the garbage collector."""

    world: World
    revision: Revision
    """The current one; with an empty uid while it is not stored yet."""
    older: tuple[Revision, ...]
    """The other stored ones, newest first."""
    slots: tuple[Slot, ...]
    """By node name, ascending; vanished nodes last."""
    unmatched: tuple[Pod, ...]
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

    @property
    def limit(self) -> str:
        """Which of its two limits the strategy uses, as the spec calls it."""
        return "maxSurge" if self.surging else "maxUnavailable"

    @property
    def most(self) -> int:
        """How many nodes that limit allows at a time."""
        return self.budget.max_surge if self.surging else self.budget.max_unavailable

    @property
    def in_use(self) -> int:
        """How many nodes use it now."""
        return len(self.mid_surge) if self.surging else self.unserved

    @property
    def in_place(self) -> bool:
        """Whether pods are updated in place where that is possible; with maxSurge there is nothing to gain."""
        return self.world.daemonset.in_place and not self.surging

    @property
    def eligible(self) -> list[Slot]:
        """The nodes that should run a pod, ascending: as many as `budget.desired`."""
        run = Fit.RUN
        return [slot for slot in self.slots if slot.fit is run]

    @property
    def quota(self) -> int:
        """How many nodes may hold the current revision."""
        return max(self.budget.desired - self.budget.partition, 0)

    @property
    def progressive(self) -> bool:
        """Whether the partition also keeps new nodes waiting for their first pod."""
        asked = self.rolling_update is not None and self.world.daemonset.partitioned_scaling
        return asked and self.budget.partition > 0

    @property
    def holds_back(self) -> bool:
        """Whether partition, selector or pause may keep nodes on an older revision."""
        rolling = self.rolling_update
        if rolling is None or not self.older:
            return False
        return bool(self.budget.partition or rolling.selector is not None or rolling.paused)

    @property
    def fills_with_current(self) -> bool:
        """Whether an empty node gets the current revision, whichever node it is, and as soon as it gets any."""
        return not (self.holds_back or self.progressive or self.fallback.replaces_current)

    @cached_property
    def parted(self) -> bool:
        """Whether `rollingUpdate.selector` has a say: it is given, and an eligible node still runs an older revision.

        Then an updated node that is not selected is so against the plan, though it stays in `target`.
        """
        rolling = self.rolling_update
        if rolling is None or rolling.selector is None:
            return False
        return any(slot.fit is Fit.RUN and slot.old is not None for slot in self.slots)

    @cached_property
    def unserved(self) -> int:
        """Eligible nodes that use the budget of maxUnavailable: without an available pod, whatever the reason.

        An unreachable one counts even while its pod's last word was "ready". One that stays empty does not:
        nobody is to wait for it.
        """
        return len(self._lacking) - len(self.barred)

    @property
    def unserved_nodes(self) -> list[str]:
        """Their names, in update order."""
        return [slot.node for slot in reversed(self._lacking) if slot.node not in self.barred]

    @cached_property
    def _lacking(self) -> list[Slot]:
        run = Fit.RUN
        return [
            slot
            for slot in self.slots
            if slot.fit is run and (slot.unreachable or not (slot.current_available or slot.old_available))
        ]

    @cached_property
    def bare(self) -> list[Slot]:
        """Eligible nodes without a pod that is live or has ended, ascending."""
        lacking = [slot for slot in self._lacking if slot.current is None and slot.old is None]
        return [slot for slot in lacking if not slot.pods or not slot.ended]

    @cached_property
    def fallback(self) -> Fallback:
        return Fallback(world=self.world, current=self.revision, older=self.older, slots=self.slots, quota=self.quota)

    @cached_property
    def barred(self) -> Mapping[str, Revision]:
        """Eligible nodes that stay empty, each with the older revision that it would get, which does not run there.

        They may not hold the current one. A new node that waits for its turn to get that is none of them.
        """
        empty = [slot for slot in self.bare if not slot.pods]
        if not empty or not self.holds_back:
            return {}
        may_hold = self.holders
        if self.progressive and not self.frozen:
            may_hold |= {slot.node for slot in empty if slot.selected and slot.last is None}
        wanted = [(slot.node, self.fallback.revision(slot)) for slot in empty if slot.node not in may_hold]
        return {node: older for node, older in wanted if not self.fallback.accepts(node, older)}

    @property
    def room(self) -> int:
        """How many more nodes whose old pod serves may begin now: what maxUnavailable or maxSurge leaves."""
        return max(self.most - self.in_use, 0)

    @property
    def verdict(self) -> TemplateVerdict:
        """What the server's dry run said of the current revision."""
        return self.world.verdicts.get(self.revision.hash, _UNASKED)

    @property
    def refused(self) -> bool:
        """Whether the server takes no pods of the current revision."""
        return isinstance(self.verdict, TemplateRefused)

    @cached_property
    def surplus(self) -> tuple[Slot, ...]:
        """Nodes that may only keep their old pod, and that lose it now; see `surplus_of`."""
        return surplus_of(self.slots, self.budget.desired) if self.surging else ()

    @property
    def frozen(self) -> bool:
        """Whether a pause keeps nodes that have no pod from the current revision."""
        return self.rolling_update is not None and is_frozen(self.slots, self.rolling_update)

    @cached_property
    def mid_surge(self) -> list[str]:
        """Nodes that use maxSurge: two live pods, as far as we know, or an old one while the new one waits for its
        back-off."""
        coming, leaving = self.world.coming, self.world.leaving
        return [
            slot.node
            for slot in self.slots
            if slot.fit is not None
            and (
                slot.paired
                or self.awaits_retry(slot)
                or (slot.only_old and slot.node in coming)
                or (slot.current is not None and slot.node in leaving)
            )
        ]

    def awaits_retry(self, slot: Slot) -> bool:
        """Whether the new pod beside a live old one has failed and is kept until its back-off is over."""
        if slot.old is None or not slot.had_current:
            return False
        return any(pod.ended and pod.hash == self.revision.hash for pod in slot.pods)

    def _for_current(self, rolling: RollingUpdate | None) -> tuple[Slot, ...]:
        coming, current = self.world.coming, self.revision.hash
        unseen = {node for node, revision_hash in coming.items() if revision_hash == current}
        return nodes_for_current(self.slots, rolling, self.quota, unseen)

    @cached_property
    def may_hold_current(self) -> tuple[Slot, ...]:
        """In update order."""
        return self._for_current(self.rolling_update)

    @cached_property
    def holders(self) -> frozenset[str]:
        """Their names."""
        return frozenset([slot.node for slot in self.may_hold_current])

    @cached_property
    def target(self) -> tuple[Slot, ...]:
        """Who may hold the current revision, or could if it were not paused: what the rollout is measured by.

        At a first deployment partition and selector leave nobody out, since there is nothing else to run; only
        partitionedScaling keeps nodes waiting.
        """
        rolling, chosen = self.rolling_update, self.may_hold_current
        if rolling is not None and rolling.paused:
            chosen = self._for_current(msgspec.structs.replace(rolling, paused=False))
        if self.older or len(chosen) == self.budget.desired:
            return chosen
        names = {slot.node for slot in chosen}
        first = [one for one in self.slots if one.fit is Fit.RUN and one.old is None and one.node not in names]
        return (*chosen, *first)[: self.quota if self.progressive else None]

    @cached_property
    def outdated(self) -> tuple[Slot, ...]:
        """The nodes that wait for the current revision, in update order: they may hold it, and only an old pod is
        there."""
        return tuple([slot for slot in self.may_hold_current if slot.current is None and slot.old is not None])


def lay_out(world: World) -> Board:
    """Raises ValueError for a malformed number; `Rules.problems` tells of it first."""
    revision, older = current_revision(world)
    owned, unmatched = split_unmatched(world)
    by_node: dict[str, list[Pod]] = {}
    for pod in owned:
        by_node.setdefault(pod.node, []).append(pod)
    by_node.pop("", None)  # aimed at no node that we know: not ours to judge
    reader = SlotReader(world, revision.hash)
    judged = world.rules.judged(world.nodes)
    slots = [
        reader.slot(node.name, fit, selected, bool(node.taints) and node.unreachable, by_node.pop(node.name, ()))
        for node, fit, selected in zip(world.nodes, judged.fits, judged.selected, strict=True)
    ]
    slots += [reader.slot(name, None, False, False, by_node[name]) for name in sorted(by_node)]
    desired = judged.fits.count(Fit.RUN)
    return Board(
        world=world,
        revision=revision,
        older=older,
        slots=tuple(slots),
        unmatched=unmatched,
        budget=budget_of(world.daemonset, desired),
        next_available=reader.next_available,
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
