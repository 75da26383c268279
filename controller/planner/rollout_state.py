"""Which nodes may hold the current revision, which are updated next, and how much room the limits leave.

The order of nodes: `node_fit.UpdateOrder` sorts all nodes by `rollingUpdate.order` and by name. `may_hold_current`
takes the first of them up to `allowed_nodes`, nodes that have the revision before all others. Of these, `outdated`
are left to update, and `rolling_update.Turns` takes as many as `room` allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.planner.limits import Domains, budget_of
from controller.planner.node_fit import Fit
from controller.planner.nodes import NodeInfo, NodeReader
from controller.planner.observed import ObservedRollout
from controller.planner.revisions import Fallback, current_revision, rolled_out
from controller.planner.world import World, split_unmatched


class RolloutState(ObservedRollout, dict=True, gc=True):
    """What the facts allow, each computed once."""

    @property
    def unpartitioned(self) -> int:
        """The number of nodes that may hold the current revision by partition alone."""
        return max(self.budget.desired - self.budget.partition, 0)

    @property
    def allowed_nodes(self) -> int:
        """The number of nodes that may hold it, by partition and step."""
        return (
            self.unpartitioned if self.step_progress is None else min(self.unpartitioned, self.step_progress.allowed)
        )

    @property
    def is_limited_by_step(self) -> bool:
        """Whether the step allows fewer nodes than the partition."""
        return self.step_progress is not None and self.step_progress.allowed < self.unpartitioned

    @property
    def progressive(self) -> bool:
        """Whether the partition also leaves new nodes empty (partitionedScaling)."""
        asked = self.rolling_update is not None and self.world.daemonset.partitioned_scaling
        return asked and self.budget.partition > 0

    @property
    def holds_back(self) -> bool:
        """Whether partition, selector, step or pause may keep nodes on an older revision."""
        rolling = self.rolling_update
        if rolling is None or not self.older:
            return False
        kept = self.budget.partition or rolling.selector is not None or rolling.paused
        return bool(kept) or self.step_progress is not None or bool(self.abort)

    @property
    def frozen(self) -> bool:
        """Whether the rollout is stopped while some node has only an old pod, or had one last."""
        return self.stopped and any(node.current is None and node.had_old for node in self.eligible)

    @cached_property
    def may_hold_current(self) -> tuple[NodeInfo, ...]:
        """The nodes that may hold the current revision, at most `allowed_nodes`, in update order. First come nodes
        that have it or may have it, then those whose last pod had it, so that a lost pod comes back and moves no
        other node; then selected nodes, unless an incomplete rollout is stopped. With OnDelete all eligible nodes
        may hold it. See docs/design/decisions.md#rollouts."""
        return self._for_current(stopped=self.stopped)

    def _for_current(self, *, stopped: bool) -> tuple[NodeInfo, ...]:
        in_order = self.eligible_in_order
        if self.rolling_update is None:
            return in_order
        coming = {name for name, revision_hash in self.world.coming.items() if revision_hash == self.revision.hash}
        having = [node for node in in_order if node.current is not None or node.name in coming]
        others = [node for node in in_order if node.current is None and node.name not in coming]
        had = [node for node in others if node.had_current and node.old is None]
        rest = [node for node in others if node.selected and not (node.had_current and node.old is None)]
        if stopped and (self.abort or any(node.had_old for node in others)):
            rest = []
        if self.is_limited_by_step and len(having) + len(had) + len(rest) > self.allowed_nodes:
            behind = {node.name for node in self.lacking if self._is_left_behind(node)}
            rest.sort(key=lambda node: node.name not in behind)
        if self.left_out:  # they do not take the place of a node that can be updated
            rest.sort(key=lambda node: node.name in self.left_out)
        return tuple((having + had + rest)[: self.allowed_nodes])

    def _is_left_behind(self, node: NodeInfo) -> bool:
        """Whether the node has, or had last, an unavailable pod of an earlier update. If other nodes came first, it
        would use up a limit forever."""
        old = node.old
        if old is None:
            return node.last not in (None, self.stable_hash)
        return node.only_old_unready and not node.unreachable and old.hash != self.stable_hash

    @cached_property
    def holders(self) -> frozenset[str]:
        return frozenset([node.name for node in self.may_hold_current])

    @cached_property
    def target(self) -> tuple[NodeInfo, ...]:
        """The nodes by which the rollout is measured: those that may hold the current revision, or could if it were
        not paused. In a first deployment only partitionedScaling leaves nodes out."""
        chosen = self._for_current(stopped=False) if self.stopped else self.may_hold_current
        if self.older or len(chosen) == self.budget.desired:
            return chosen
        names = {node.name for node in chosen}
        first = [node for node in self.eligible if node.old is None and node.name not in names]
        return (*chosen, *first)[: self.allowed_nodes if self.progressive else None]

    @cached_property
    def outdated(self) -> tuple[NodeInfo, ...]:
        """The nodes that are left to update: they may hold the current revision and have only an old pod."""
        return tuple([node for node in self.may_hold_current if node.current is None and node.old is not None])

    @cached_property
    def left_out(self) -> frozenset[str]:
        """The unreachable nodes that the rollout does not wait for; none if more are than may be."""
        return frozenset() if self.too_many_unreachable else self.unreachable_nodes

    @property
    def too_many_unreachable(self) -> bool:
        """Whether the rollout waits because more nodes are unreachable than may be left out, unless that is 0."""
        return len(self.unreachable_nodes) > self.budget.leave_out > 0

    @cached_property
    def fallback(self) -> Fallback:
        defers_current = not self.revision.uid or self.dry_run.refused_for_unknown_fields
        return Fallback(
            world=self.world,
            current=self.revision,
            defers_current=defers_current,
            older=self.older,
            nodes=self.nodes,
            unpartitioned=self.unpartitioned,
        )

    @property
    def fills_with_current(self) -> bool:
        return not (self.holds_back or self.progressive or self.fallback.replaces_current)

    @cached_property
    def unplaceable(self) -> Mapping[str, Revision]:
        """Eligible nodes that stay empty because they may get only an older revision that does not run there, with
        that revision; without new nodes that wait for their turn."""
        empty = [node for node in self.without_pod if not node.pods]
        if not empty or not self.holds_back:
            return {}
        may_hold = self.holders
        if self.progressive and not self.frozen:
            may_hold |= {node.name for node in empty if node.selected and node.last is None}
        wanted = [(node, self.fallback.revision(node)) for node in empty if node.name not in may_hold]
        return {node.name: older for node, older in wanted if not self.fallback.accepts(node, older)}

    @cached_property
    def unavailable(self) -> int:
        """The number of eligible nodes that use maxUnavailable: without an available pod, or unreachable.
        `unplaceable` nodes do not count, nor those with a ready pod that has yet to be adopted."""
        return len(self.lacking) - len(self._excused)

    @property
    def unavailable_nodes(self) -> list[str]:
        """Their names, in update order."""
        lacking = {node.name for node in self.lacking} - self._excused
        return [node.name for node in self.eligible_in_order if node.name in lacking] if lacking else []

    @cached_property
    def _excused(self) -> set[str]:
        orphans = {pod.node for pod in self.adoptable if pod.ready}
        return {*self.unplaceable, *self.left_out, *(node.name for node in self.lacking if node.name in orphans)}

    @property
    def in_use(self) -> int:
        """The number of nodes that use `Budget.limit`."""
        return len(self.mid_surge) if self.surging else self.unavailable

    @property
    def room(self) -> int:
        """The number of nodes with an available old pod that the limit allows to update now."""
        return max(self.budget.most - self.in_use, 0)

    def room_for(self, young: int) -> int:
        """As `room`, for nodes whose old pod is Ready but not yet available; `young` of them use the limit
        already."""
        return max(self.budget.most - self.in_use + young, 0)

    @cached_property
    def domains(self) -> Domains | None:
        rolling = self.rolling_update
        if rolling is None or rolling.topology is None:
            return None
        sizes = self.world.rules.evaluate(self.world.nodes).domains
        if self.surging:
            names = frozenset(self.mid_surge)
            disrupted = by_update = [node for node in self.eligible if node.name in names]
        else:
            disrupted = [node for node in self.lacking if node.name not in self._excused]
            by_update = [node for node in disrupted if self._is_disrupted_by_update(node)]
        return Domains(rolling.topology, sizes, disrupted, by_update)

    def _is_disrupted_by_update(self, node: NodeInfo) -> bool:
        """An old pod of another than the stable revision was made by an earlier update."""
        if node.unreachable or node.name in self.unavailable_before:
            return False
        if node.old is not None and node.current is None:
            return not node.old_ready or node.old.hash != self.record.stable_revision
        return node.current is not None or node.name in self.holders

    @cached_property
    def surplus(self) -> tuple[NodeInfo, ...]:
        """While surging: nodes that get no new pod (`Fit.STAY`) and lose their old one, in update order. It goes if
        it is not available, or if more pods are available than desired, so that an application moving to other nodes
        always has enough. A pod already prepared for its deletion goes first, but stays if too few are available."""
        tainted = [node for node in self.in_update_order if node.fit is Fit.STAY] if self.surging else []
        candidates = [node for node in tainted if node.only_old and node.selected and not node.unreachable]
        if not candidates:
            return ()
        spare = [node for node in candidates if node.old_available]
        begun = [node for node in candidates if not node.old_available and node.old_only_held]
        useless = [node for node in candidates if not node.old_available and not node.old_only_held]
        available = sum(1 for node in self.nodes if node.fit in (Fit.STAY, Fit.RUN) and node.available) + len(begun)
        return (*useless, *[*begun, *spare][: max(available - self.budget.desired, 0)])


def rollout_state(world: World) -> RolloutState:
    """Raises ValueError for a malformed number, which `Rules.problems` reports before."""
    revision, history = current_revision(world)
    owned, unmatched = split_unmatched(world)
    by_node: dict[str, tuple[Pod, ...]] = {}
    for pod in owned:
        by_node[pod.node] = (*by_node[pod.node], pod) if pod.node in by_node else (pod,)
    by_node.pop("", None)  # such a pod names no node, so nothing can be decided about it
    reader = NodeReader(world, revision.hash)
    evaluated = world.rules.evaluate(world.nodes)
    nodes = [
        reader.node(node.name, by_node.pop(node.name, ()), node, fit, selected)
        for node, fit, selected in zip(world.nodes, evaluated.fits, evaluated.selected, strict=True)
    ]
    nodes += [reader.node(name, by_node[name]) for name in sorted(by_node)]
    desired = evaluated.fits.count(Fit.RUN)
    return RolloutState(
        world=world,
        revision=revision,
        history=history,
        older=rolled_out(world, history),
        nodes=tuple(nodes),
        unmatched=unmatched,
        budget=budget_of(world.daemonset, desired),
        next_available=reader.next_available,
    )
