"""How each node stands in a rollout and what it waits for, for conditions, metrics and the plugin. The stages of the
planner read the same: on a node without a blocker they act next, as far as the budget allows."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import Final

from controller.api.objects import Value
from controller.api.pod import Pod
from controller.planner import blockers
from controller.planner.blocker_texts import Blocker
from controller.planner.node_fit import Fit
from controller.planner.nodes import NodeInfo
from controller.planner.placement import fillable, in_order, refills
from controller.planner.rolling_update import Turns
from controller.planner.rollout_state import RolloutState
from controller.planner.world import POD_QUOTA, BackoffKey, TemplateRefused, Unasked


class NodeState(StrEnum):
    """How a node stands, as in `kubectl kruise-ds nodes --only`."""

    UPDATED = "updated"
    """It has an available pod of the current revision."""
    UPDATING = "updating"
    """Its old pod is going, or its new one is not available yet."""
    FAILING = "failing"
    """Its pod of the current revision does not recover by waiting, or has ended."""
    NEXT = "next"
    """Its old pod is to be replaced."""
    OLD = "old"
    """Partition, selector or step keeps its old pod."""
    MISSING = "missing"
    UNPLANNED = "unplanned"
    """It is updated, although partition, selector or step would keep it old."""
    DELETING = "deleting"
    """Its only pod is being deleted, and one of an older revision will follow."""
    EXCLUDED = "excluded"


PREPARING: Final = "preparing"
"""Shown beside any state: the preDelete hook holds a pod there."""


class Explanation(Value):
    node: NodeInfo
    state: NodeState
    blocker: Blocker | None
    """What keeps the planner from acting on the node; on an empty node, from creating any pod."""


class Explainer:
    """The states and blockers of the nodes of one rollout. What all nodes share is computed once."""

    def __init__(self, rollout: RolloutState) -> None:
        self.rollout, self._turns = rollout, Turns(rollout)
        self.stop = blockers.rollout_blocker(rollout) if rollout.stopped else None
        """What keeps the current revision from all nodes that do not have it; None if nothing does."""
        self._stale = None if rollout.world.fresh else Blocker.STALE
        self._not_yet = self._stale or (None if rollout.revision.uid else Blocker.UNSTORED)

    def explain(self, node: NodeInfo) -> Explanation:
        return Explanation(node=node, state=self.state(node), blocker=self.blocker(node))

    def state(self, node: NodeInfo) -> NodeState:
        if node.fit is not Fit.RUN:
            return NodeState.EXCLUDED
        targeted = node.name in self.target
        if node.current is not None:
            if node.current.problem is not None:
                return NodeState.FAILING
            if node.old is not None or not node.current_available:
                return NodeState.UPDATING
            planned = targeted and (node.selected or not self.rollout.split_by_selector)
            return NodeState.UPDATED if planned else NodeState.UNPLANNED
        if node.old is not None:
            return NodeState.NEXT if targeted else NodeState.OLD
        if node.ended:
            return NodeState.FAILING
        if node.pods:
            return NodeState.UPDATING if targeted else NodeState.DELETING
        return NodeState.MISSING

    def hold(self, node: NodeInfo) -> Blocker | None:
        """The setting that keeps the current revision from the node; None if the node has it or may get it."""
        if node.current is not None or node.fit is not Fit.RUN or node.name in self.rollout.holders:
            return None
        if node.name not in self.target:
            kept_by_number = Blocker.STEP if self.rollout.is_limited_by_step else Blocker.PARTITION
            return kept_by_number if node.selected else Blocker.SELECTOR
        gets_it = not self.rollout.older and node.old is None  # even while paused
        return self.stop if not gets_it else None

    @property
    def possible_holds(self) -> set[Blocker]:
        """The blockers that `hold` may return for some node; cheaper than asking for each."""
        rollout, rolling = self.rollout, self.rollout.rolling_update
        found = {self.stop} if self.stop is not None else set()
        if len(rollout.target) < rollout.budget.desired:
            found.add(Blocker.STEP if rollout.is_limited_by_step else Blocker.PARTITION)
            if rolling is not None and rolling.selector is not None:
                found.add(Blocker.SELECTOR)
        return found

    def blocker(self, node: NodeInfo) -> Blocker | None:
        if node.fit is not Fit.RUN:
            return Blocker.TAINTED if node.fit is Fit.STAY and node.only_old else None
        if node.current is not None:
            return self._of_new(node)
        return self._of_empty(node) if node.old is None else self.hold(node) or self._of_turn(node)

    def _of_turn(self, node: NodeInfo) -> Blocker | None:
        """The blocker of a node in `RolloutState.outdated`."""
        return self._of_all or self._turns.blockers.get(node.name) or self._not_yet

    @cached_property
    def held_by_hook(self) -> tuple[Pod, ...]:
        """The pods that the preDelete hook holds, in update order."""
        rollout = self.rollout
        if rollout.world.daemonset.pre_delete is None:
            return ()
        pods = (pod for node in rollout.in_update_order for pod in node.pods)
        return tuple([pod for pod in pods if not pod.terminating and blockers.waits_for_hook(rollout, pod)])

    @cached_property
    def _of_all(self) -> Blocker | None:
        """The blocker that all updates have in common."""
        rollout, world, verdict = self.rollout, self.rollout.world, self.rollout.dry_run.verdict
        if (found := blockers.rollout_blocker(rollout)) is not None:
            return found
        if isinstance(verdict, TemplateRefused):
            return Blocker.REFUSED
        if isinstance(verdict, Unasked):
            found = blockers.write_blocker(world, BackoffKey("template", rollout.revision.hash))
        return found or (Blocker.RESOURCE_QUOTA if rollout.surging and POD_QUOTA in world.in_backoff else None)

    @cached_property
    def in_turn(self) -> tuple[NodeInfo, ...]:
        """The nodes that are updated as soon as the budget has room, in update order."""
        going = {Blocker.BUDGET, Blocker.DOMAIN, Blocker.STALE, Blocker.UNSTORED, None}
        return tuple([node for node in self.rollout.outdated if self._of_turn(node) in going])

    @cached_property
    def waiting(self) -> Mapping[Blocker | None, list[NodeInfo]]:
        """`RolloutState.outdated` by blocker, in update order."""
        found: dict[Blocker | None, list[NodeInfo]] = {}
        for node in self.rollout.outdated:
            found.setdefault(self._of_turn(node), []).append(node)
        return found

    def _of_new(self, node: NodeInfo) -> Blocker | None:
        if node.old is None:
            return None if node.current_available or node.current is None else self._of_starting(node.current)
        if node.unreachable:
            return Blocker.UNREACHABLE
        pod = blockers.outgoing(self.rollout, node)
        if pod is None and node.current is not None:
            return self._of_starting(node.current)
        return Blocker.STARTING if pod is None else blockers.deletion_blocker(self.rollout, pod) or self._stale

    def _of_starting(self, pod: Pod) -> Blocker | None:
        """The blocker of a pod of the current revision that stays and is not available."""
        world = self.rollout.world
        stays = blockers.is_given_up(self.rollout, pod) or not blockers.is_recreated(world, pod)
        if (pod.held_by_hook or pod.marked_not_ready) and stays:  # the next pass takes that back
            asked = Blocker.UNANSWERED if blockers.is_unanswered(world, BackoffKey("object", pod.uid)) else None
            return asked or blockers.write_blocker(world, BackoffKey("cancel", pod.uid)) or self._stale
        if blockers.resize_refusal(world, pod):
            return Blocker.UNRESIZED
        in_progress = pod.in_progress
        if in_progress is None or not in_progress.is_pending(world.now):
            return Blocker.STARTING
        if in_progress.resize is None:
            return Blocker.RESTARTING
        return Blocker.RESIZING

    def _of_empty(self, node: NodeInfo) -> Blocker | None:
        if ended := node.ended:
            return blockers.replacement_blocker(self.rollout, ended) or self._stale
        found = blockers.creation_blocker(self.rollout, node)
        if found is None and node.name in self.rollout.unplaceable:
            return Blocker.PLACEMENT
        return found or self._unfilled.get(node.name) or self._stale

    @cached_property
    def _unfilled(self) -> Mapping[str, Blocker]:
        rollout = self.rollout
        if rollout.fills_with_current and not rollout.dry_run.refused_for_unknown_fields:
            return {}
        served = refills(rollout, in_order(rollout, fillable(rollout)))
        return {node.name: found for node, found in served if isinstance(found, Blocker)}

    @cached_property
    def target(self) -> frozenset[str]:
        return frozenset([node.name for node in self.rollout.target])
