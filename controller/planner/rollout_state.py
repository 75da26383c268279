"""The state of one rollout: nodes with their pods, the limits, and the numbers of a pass, each computed once. Loops
over all nodes cost most, so they use no properties and look up each enum member once
(docs/design/life-of-an-event.md#what-a-pass-costs)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import inf

import msgspec

from controller.api.daemonset import CheckState, RollingUpdate, Rollout, rollout_of
from controller.api.objects import Value, epoch
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.planner.blocker_texts import Blocker
from controller.planner.checks import CheckNow, checks_now
from controller.planner.failure import Failure, asks_for_retry, failure_of, failure_of_checks, is_overridden
from controller.planner.limits import Budget, Domains, budget_of
from controller.planner.node_fit import Fit
from controller.planner.nodes import NodeInfo, NodeReader
from controller.planner.revisions import DryRun, Fallback, current_revision, rolled_out
from controller.planner.steps import Walk, applies, walk_of
from controller.planner.world import World, split_unmatched


class RolloutState(Value, dict=True, gc=True):
    """The world of one pass, by node. `dict=True` and `gc=True` are for the cached properties."""

    world: World
    revision: Revision
    """The current revision; its uid is empty until it is stored."""
    history: tuple[Revision, ...]
    """All other stored revisions, newest first."""
    older: tuple[Revision, ...]
    """Those of `history` that have been rolled out, for empty nodes."""
    nodes: tuple[NodeInfo, ...]
    """Ascending by name; nodes that are gone come last."""
    unmatched: tuple[Pod, ...]
    """Pods that the DaemonSet controls and its selector does not match."""
    budget: Budget
    next_available: float | None
    """When the next pod that is ready becomes available (seconds since 1970)."""

    @property
    def rolling_update(self) -> RollingUpdate | None:
        return self.world.daemonset.rolling_update

    @cached_property
    def record(self) -> Rollout:
        """`status.rollout` as the last pass wrote it."""
        return rollout_of(self.world.daemonset.status)

    @cached_property
    def _own_record(self) -> Rollout:
        """The same; an empty one if it is of another revision or of an earlier try."""
        status = self.world.daemonset.status
        other = status is None or status.update_revision != self.revision.hash or self.retries
        return Rollout() if other else self.record

    @property
    def surging(self) -> bool:
        return self.budget.surging

    @property
    def in_use(self) -> int:
        """The number of nodes that use `Budget.limit`."""
        return len(self.mid_surge) if self.surging else self.unavailable

    @property
    def in_place(self) -> bool:
        """Whether pods are updated in place if possible; never with maxSurge."""
        return self.world.daemonset.in_place and not self.surging

    @cached_property
    def eligible(self) -> tuple[NodeInfo, ...]:
        """The nodes that should run a pod, ascending; `budget.desired` is their number."""
        run = Fit.RUN
        return tuple([node for node in self.nodes if node.fit is run])

    @cached_property
    def in_update_order(self) -> tuple[NodeInfo, ...]:
        """`nodes` in update order; those that are gone come first."""
        nodes, known = self.nodes, self.world.nodes
        return (*reversed(nodes[len(known) :]), *[nodes[index] for index in self.world.rules.judged(known).order])

    @cached_property
    def eligible_in_order(self) -> tuple[NodeInfo, ...]:
        run = Fit.RUN
        return tuple([node for node in self.in_update_order if node.fit is run])

    @property
    def quota(self) -> int:
        """The number of nodes that may hold the current revision, by partition and step."""
        return self.unpartitioned if self.walk is None else min(self.unpartitioned, self.walk.allowed)

    @property
    def unpartitioned(self) -> int:
        """The number of nodes that may hold it by partition alone."""
        return max(self.budget.desired - self.budget.partition, 0)

    @cached_property
    def walk(self) -> Walk | None:
        """The walk through the steps as recorded; None if the rollout does not go by steps."""
        daemonset, current = self.world.daemonset, self.revision.hash
        status = daemonset.status
        if not applies(daemonset, self.record, current, first=not self.older):
            return None
        return walk_of(
            daemonset,
            self._own_record,
            current,
            nodes=sum([node.selected or node.had_current for node in self.eligible]),
            now=self.world.now,
            server_offset=self.world.server_offset,
            reached=self.world.step_reached,
            edited=status is None or status.observed_generation != daemonset.generation,
        )

    @cached_property
    def began_before(self) -> float | None:
        """When a rollout began whose status is lost: when the first pod of the current revision was made, while nodes
        are left that have an older one (seconds since 1970). None: it begins now."""
        status = self.world.daemonset.status
        if (status is not None and status.update_revision) or not any(node.old is not None for node in self.eligible):
            return None
        return min((node.current.updated for node in self.eligible if node.current is not None), default=None)

    @cached_property
    def failure(self) -> Failure:
        """What aborts the rollout now, if it is not aborted already."""
        daemonset, current, rolling = self.world.daemonset, self.revision.hash, self.rolling_update
        status, record = daemonset.status, self.record
        began = epoch(record.start_time) or 0.0
        if status is None or not status.update_revision:
            began = self.began_before or inf
        elif status.update_revision != current:
            began = inf
        if rolling is None or rolling.on_failure is None or began == inf or not self.older:
            return Failure()
        if record.stable_revision == current or is_overridden(daemonset, current):
            return Failure()
        by_checks = failure_of_checks(rolling.on_failure, self.checks, began=began, now=self.world.now)
        by_nodes = failure_of(
            rolling.on_failure,
            self.eligible_in_order,
            began=began,
            made_from=self.world.server_offset.earliest_date(began),
            now=self.world.now,
            desired=self.budget.desired,
            excused=self.unavailable_before,
            known=self.world.unavailable_since,
        )
        due = min(by_nodes.due, by_checks.due)
        return msgspec.structs.replace(by_nodes, why=by_nodes.why or by_checks.why, due=due)

    @cached_property
    def checks(self) -> tuple[CheckNow, ...]:
        """How the checks of the open step stand; empty while none is open."""
        rolling, walk = self.rolling_update, self.walk
        if rolling is None or not rolling.checks or walk is None or walk.finished:
            return ()
        return checks_now(rolling.checks, self.world.answers, self._own_record, self.world.now)

    @cached_property
    def held_by_check(self) -> CheckNow | None:
        """The first check that fails, else the first without an answer; None: nothing waits for a check."""
        held = [one for one in self.checks if one.state is not None]
        return next((one for one in held if one.state is CheckState.FAILING), held[0] if held else None)

    @cached_property
    def abort(self) -> str:
        """Why the rollout is aborted; empty: it is not."""
        current, record = self.revision.hash, self.record
        if is_overridden(self.world.daemonset, current):
            return ""
        return (record.aborted_message or "") if record.aborted_revision == current else self.failure.why

    @property
    def retries(self) -> bool:
        """Whether a person tries the aborted revision again, which holds from the next pass on."""
        aborted = self.record.aborted_revision == self.revision.hash
        return aborted and asks_for_retry(self.world.daemonset, self.record)

    @property
    def stopped(self) -> bool:
        """Whether no node newly gets the current revision: paused, aborted, or a check fails. While a check has no
        answer, only a node without a pod may."""
        rolling, check = self.rolling_update, self.held_by_check
        fails = check is not None and check.state is CheckState.FAILING
        return rolling is not None and (rolling.paused or bool(self.abort) or fails)

    @property
    def is_limited_by_step(self) -> bool:
        """Whether the step allows fewer nodes than the partition."""
        return self.walk is not None and self.walk.allowed < self.unpartitioned

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
        return bool(kept) or self.walk is not None or bool(self.abort)

    @property
    def fills_with_current(self) -> bool:
        return not (self.holds_back or self.progressive or self.fallback.replaces_current)

    @cached_property
    def split_by_selector(self) -> bool:
        """Whether `rollingUpdate.selector` is set and an eligible node is still old. An updated node that is not
        selected is then unplanned, although it stays in `target`."""
        rolling = self.rolling_update
        if rolling is None or rolling.selector is None:
            return False
        return any(node.old is not None for node in self.eligible)

    @cached_property
    def unavailable(self) -> int:
        """The number of eligible nodes that use maxUnavailable: without an available pod, or unreachable.
        `unplaceable` nodes do not count, nor those with a ready pod that has yet to be adopted."""
        return len(self._lacking) - len(self._excused)

    @property
    def unavailable_nodes(self) -> list[str]:
        """Their names, in update order."""
        lacking = {node.name for node in self._lacking} - self._excused
        return [node.name for node in self.eligible_in_order if node.name in lacking] if lacking else []

    @cached_property
    def _excused(self) -> set[str]:
        orphans = {pod.node for pod in self.adoptable if pod.ready}
        return {*self.unplaceable, *self.left_out, *(node.name for node in self._lacking if node.name in orphans)}

    @cached_property
    def _lacking(self) -> list[NodeInfo]:
        return [
            node for node in self.eligible if node.unreachable or not (node.current_available or node.old_available)
        ]

    @cached_property
    def unavailable_before(self) -> frozenset[str]:
        """The nodes of `Rollout.unavailable_before`: they are short for another reason than the update. One is added
        while its old pod, of the stable revision, is not Ready and nothing is done to it, or if it joined the cluster
        during the rollout and no pod was seen there."""
        rolling, record = self.rolling_update, self.record
        if rolling is None or (rolling.topology is None and rolling.on_failure is None):
            return frozenset()
        known = self.world.unavailable_before.union(record.unavailable_before or ())
        stable, began = self._stable_hash, self.world.server_offset.earliest_date(epoch(record.start_time) or inf)
        return frozenset(
            node.name
            for node in self._lacking
            if node.name in known
            or (node.only_old_unready and node.old is not None and node.old.hash == stable)
            or (not node.pods and node.last is None and node.object is not None and node.object.created >= began)
        )

    @cached_property
    def _stable_hash(self) -> str | None:
        """Where no stable revision is recorded, the oldest one counts as such: an earlier update may have brought any
        other."""
        stable = self.record.stable_revision
        return self.older[-1].hash if stable is None and self.older else stable

    @cached_property
    def domains(self) -> Domains | None:
        rolling = self.rolling_update
        if rolling is None or rolling.topology is None:
            return None
        sizes = self.world.rules.judged(self.world.nodes).domains
        if self.surging:
            names = frozenset(self.mid_surge)
            short = by_update = [node for node in self.eligible if node.name in names]
        else:
            short = [node for node in self._lacking if node.name not in self._excused]
            by_update = [node for node in short if self._is_short_by_update(node)]
        return Domains(rolling.topology, sizes, short, by_update)

    def _is_short_by_update(self, short: NodeInfo) -> bool:
        """An old pod of another than the stable revision was made by an earlier update."""
        if short.unreachable or short.name in self.unavailable_before:
            return False
        if short.old is not None and short.current is None:
            return not short.old_ready or short.old.hash != self.record.stable_revision
        return short.current is not None or short.name in self.holders

    @cached_property
    def left_out(self) -> frozenset[str]:
        """The unreachable nodes that the rollout does not wait for; none if more are than may be."""
        return frozenset() if self.too_many_unreachable else self._unreachable

    @property
    def too_many_unreachable(self) -> bool:
        """Whether the rollout waits because more nodes are unreachable than may be left out, unless that is 0."""
        return len(self._unreachable) > self.budget.leave_out > 0

    @cached_property
    def _unreachable(self) -> frozenset[str]:
        """The unreachable nodes; empty if none may be left out."""
        if not self.budget.leave_out:
            return frozenset()
        return frozenset(node.name for node in self.eligible if node.unreachable)

    @cached_property
    def without_pod(self) -> list[NodeInfo]:
        """Eligible nodes with neither a live nor an ended pod, ascending."""
        lacking = [node for node in self._lacking if node.current is None and node.old is None]
        return [node for node in lacking if not node.pods or not node.ended]

    @cached_property
    def adoptable(self) -> list[Pod]:
        owns = self.world.rules.owns
        return [pod for pod in self.world.orphans if pod.adoptable and owns(pod.labels)]

    @cached_property
    def taken(self) -> Mapping[str, Blocker]:
        """Nodes that get no pod because of a stray or an orphan to be adopted, with that blocker."""
        strays = dict.fromkeys((pod.node for pod in self.unmatched if pod.uid in self.world.strays), Blocker.STRAY)
        return strays | dict.fromkeys((pod.node for pod in self.adoptable), Blocker.ADOPTABLE)

    @cached_property
    def dry_run(self) -> DryRun:
        return DryRun(world=self.world, revision=self.revision)

    @cached_property
    def fallback(self) -> Fallback:
        defers_current = not self.revision.uid or self.dry_run.refused_for_unknown_fields
        return Fallback(
            world=self.world,
            current=self.revision,
            defers_current=defers_current,
            older=self.older,
            nodes=self.nodes,
            quota=self.unpartitioned,
        )

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

    @property
    def room(self) -> int:
        """The number of nodes with an available old pod that the limit allows to update now."""
        return max(self.budget.most - self.in_use, 0)

    def room_for(self, young: int) -> int:
        """The same for nodes whose old pod is Ready but not yet available: `young` of them use the limit already."""
        return max(self.budget.most - self.in_use + young, 0)

    @cached_property
    def surplus(self) -> tuple[NodeInfo, ...]:
        """While surging: nodes that get no new pod (`Fit.STAY`) and lose their old one, in update order. It goes if
        it is not available, or if more pods are available than desired, so that an application moving to other nodes
        always has enough. A pod already prepared for its deletion goes first, but stays if too few are available."""
        tainted = [one for one in self.in_update_order if one.fit is Fit.STAY] if self.surging else []
        leaving = [one for one in tainted if one.only_old and one.selected and not one.unreachable]
        if not leaving:
            return ()
        spare = [one for one in leaving if one.old_available]
        begun = [one for one in leaving if not one.old_available and one.old_only_held]
        useless = [one for one in leaving if not one.old_available and not one.old_only_held]
        available = sum(1 for one in self.nodes if one.fit in (Fit.STAY, Fit.RUN) and one.available) + len(begun)
        return (*useless, *[*begun, *spare][: max(available - self.budget.desired, 0)])

    @property
    def frozen(self) -> bool:
        """Whether the rollout is stopped while some node has only an old pod, or had one last."""
        return self.stopped and any(node.current is None and node.had_old for node in self.eligible)

    @cached_property
    def mid_surge(self) -> list[str]:
        """The nodes that use maxSurge: with two live pods, or with a live old pod and a failed new one in its
        back-off. Writes that the caches do not show yet count as done."""
        coming, leaving, current = self.world.coming, self.world.leaving, self.revision.hash
        return [
            node.name
            for node in self.nodes
            if node.fit is not None
            and (
                node.paired
                or node.awaits_retry(current)
                or (node.only_old and node.name in coming)
                or (node.current is not None and node.name in leaving)
            )
        ]

    @cached_property
    def may_hold_current(self) -> tuple[NodeInfo, ...]:
        """The nodes that may hold the current revision, at most `quota`, in update order. First come nodes that have
        it or may have it, then those whose last pod had it, so that a lost pod comes back and moves no other node;
        then selected nodes, unless an incomplete rollout is stopped. With OnDelete all eligible nodes may hold it.
        See docs/design/decisions.md#rollouts."""
        return self._for_current(stopped=self.stopped)

    def _for_current(self, *, stopped: bool) -> tuple[NodeInfo, ...]:
        in_order = self.eligible_in_order
        if self.rolling_update is None:
            return in_order
        coming = {name for name, revision_hash in self.world.coming.items() if revision_hash == self.revision.hash}
        having = [node for node in in_order if node.current is not None or node.name in coming]
        lacking = [node for node in in_order if node.current is None and node.name not in coming]
        had = [node for node in lacking if node.had_current and node.old is None]
        rest = [node for node in lacking if node.selected and not (node.had_current and node.old is None)]
        if stopped and (self.abort or any(node.had_old for node in lacking)):
            rest = []
        if self.is_limited_by_step and len(having) + len(had) + len(rest) > self.quota:
            behind = {one.name for one in self._lacking if self._is_left_behind(one)}
            rest.sort(key=lambda node: node.name not in behind)
        if self.left_out:  # they take the place of no node that can be updated
            rest.sort(key=lambda node: node.name in self.left_out)
        return tuple((having + had + rest)[: self.quota])

    def _is_left_behind(self, node: NodeInfo) -> bool:
        """Whether the node has, or had last, a pod of an earlier update that does not serve. Where other nodes came
        first, it would use up limits for good."""
        old = node.old
        if old is None:
            return node.last not in (None, self._stable_hash)
        return node.only_old_unready and not node.unreachable and old.hash != self._stable_hash

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
        first = [one for one in self.eligible if one.old is None and one.name not in names]
        return (*chosen, *first)[: self.quota if self.progressive else None]

    @cached_property
    def outdated(self) -> tuple[NodeInfo, ...]:
        """The nodes that are left to update: they may hold the current revision and have only an old pod."""
        return tuple([node for node in self.may_hold_current if node.current is None and node.old is not None])


def rollout_state(world: World) -> RolloutState:
    """Raises ValueError for a malformed number, which `Rules.problems` reports before."""
    revision, history = current_revision(world)
    owned, unmatched = split_unmatched(world)
    by_node: dict[str, tuple[Pod, ...]] = {}
    for pod in owned:
        by_node[pod.node] = (*by_node[pod.node], pod) if pod.node in by_node else (pod,)
    by_node.pop("", None)  # such a pod names no node, so nothing can be decided about it
    reader = NodeReader(world, revision.hash)
    judged = world.rules.judged(world.nodes)
    nodes = [
        reader.node(node.name, by_node.pop(node.name, ()), node, fit, selected)
        for node, fit, selected in zip(world.nodes, judged.fits, judged.selected, strict=True)
    ]
    nodes += [reader.node(name, by_node[name]) for name in sorted(by_node)]
    desired = judged.fits.count(Fit.RUN)
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
