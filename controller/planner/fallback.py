"""What a node gets that has no pod and may not hold the current revision: a pod as it was, else as most are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property

import msgspec

from controller.api.base import Value
from controller.api.node import Node
from controller.api.revision import Revision
from controller.planner.eligibility import Fit, Rules
from controller.planner.slot import Slot
from controller.planner.world import World


class Fallback(Value, dict=True, gc=True):
    """Everything is worked out when it is asked for: in most passes no node is empty.

    While the current revision is not stored and an older one is, nobody gets the current one: were the template to
    change, its pods could not come back as they were.
    """

    world: World
    current: Revision
    older: tuple[Revision, ...]
    """Newest first."""
    slots: tuple[Slot, ...]
    quota: int
    """How many nodes may hold the current revision."""

    def revision(self, slot: Slot) -> Revision:
        """The revision of the last pod in `slot`, which may be the current one; the usual one where that is not known
        or not stored any more."""
        known = self._stored.get(slot.last) if slot.last is not None else None
        return self.usual if known is None else known

    def accepts(self, node: str, revision: Revision) -> bool:
        """Whether the placement of that very revision lets its pods run there."""
        if revision is self.current:
            return True
        rules = self.world.placements.get(revision.uid)
        return rules is not None and rules.fit(self._nodes[node]) is Fit.RUN

    @cached_property
    def usual(self) -> Revision:
        """For nodes whose last pod is not known.

        Where more nodes run the current revision than may hold it, as after a revert under a partition, that is the
        stable one; so it is where no older one is stored.
        """
        older = self.most_run
        if older is None:
            return self.current
        if self.replaces_current:
            return older
        holders = sum(1 for slot in self.slots if slot.fit is Fit.RUN and slot.current is not None)
        return self.current if holders > self.quota else older

    @property
    def replaces_current(self) -> bool:
        """Whether also nodes that may hold the current revision get an older one: only that is stored."""
        return not self.current.uid and bool(self._others)

    @cached_property
    def most_run(self) -> Revision | None:
        """The older revision that most live pods are of; of equals the newest. None: none is stored."""
        if not self._others:
            return None
        live = Counter(pod.hash for slot in self.slots for pod in slot.pods if not pod.dying and not pod.ended)
        return max(self._others, key=lambda one: live[one.hash])

    @cached_property
    def _others(self) -> tuple[Revision, ...]:
        """Without those that mean the same as the current one, and are going."""
        return tuple([one for one in self.older if one.identity != self.current.identity])

    @cached_property
    def _stored(self) -> Mapping[str, Revision]:
        current = () if self.replaces_current else (self.current,)
        return {one.hash: one for one in (*reversed(self._others), *current)}

    @cached_property
    def _nodes(self) -> Mapping[str, Node]:
        return {node.name: node for node in self.world.nodes}


def placements_of(revisions: Iterable[Revision], known: Mapping[str, Rules | None]) -> dict[str, Rules | None]:
    """Uid to the compiled placement of each revision, those that are `known` as they are; None: it cannot be."""
    return {one.uid: known[one.uid] if one.uid in known else _compiled(one) for one in revisions}


def _compiled(revision: Revision) -> Rules | None:
    try:
        return Rules(revision.template)
    except (ValueError, msgspec.ValidationError):
        return None
