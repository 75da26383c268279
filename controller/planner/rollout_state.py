"""How a DaemonSet stands in a pass: its nodes with their pods, whether its rollout is stopped or fails, which nodes
may hold the current revision, which are updated next, and how much room the limits leave.

The order of nodes: `node_fit.UpdateOrder` sorts all nodes by `rollingUpdate.order` and by name. `may_hold_current`
takes the first of them up to `allowed_nodes`, nodes that have the revision before all others. Of these, `outdated`
are left to update, and `rolling_update.Turns` takes as many as `room` allows.

Loops over all nodes cost most, so they use no properties and look up each enum member once
(docs/design/life-of-an-event.md#what-a-pass-costs).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import inf

from msgspec.structs import replace

from controller.api.daemonset import CheckState, RollingUpdate, Rollout, rollout_of
from controller.api.objects import Value, epoch
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.planner.blocker_texts import Blocker
from controller.planner.checks import CheckNow, checks_now
from controller.planner.failure import Failure, asks_for_retry, failure_of, failure_of_checks, is_overridden
from controller.planner.limits import Budget, Domains, StepProgress, applies, budget_of, step_progress_of
from controller.planner.node_fit import Fit
from controller.planner.nodes import NodeInfo, read_nodes
from controller.planner.revisions import DryRun, Fallback, current_revision, rolled_out
from controller.planner.world import World


class RolloutState(Value, dict=True, gc=True):
    """The facts of one pass and what they allow, each computed once. `dict=True` and `gc=True` are for the cached
    properties."""

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
        """`record` if it is of the current revision and try; otherwise an empty one."""
        status = self.world.daemonset.status
        other = status is None or status.update_revision != self.revision.hash or self.retry_requested
        return Rollout() if other else self.record

    @property
    def surging(self) -> bool:
        return self.budget.surging

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
        return (*reversed(nodes[len(known) :]), *[nodes[index] for index in self.world.rules.evaluate(known).order])

    @cached_property
    def eligible_in_order(self) -> tuple[NodeInfo, ...]:
        run = Fit.RUN
        return tuple([node for node in self.in_update_order if node.fit is run])

    @cached_property
    def lacking(self) -> list[NodeInfo]:
        """The eligible nodes that are unreachable or have no available pod, ascending."""
        return [
            node for node in self.eligible if node.unreachable or not (node.current_available or node.old_available)
        ]

    @cached_property
    def without_pod(self) -> list[NodeInfo]:
        """Eligible nodes with neither a live nor an ended pod, ascending."""
        lacking = [node for node in self.lacking if node.current is None and node.old is None]
        return [node for node in lacking if not node.pods or not node.ended]

    @cached_property
    def adoptable(self) -> list[Pod]:
        owns = self.world.rules.owns
        return [pod for pod in self.world.orphans if pod.adoptable and owns(pod.labels)]

    @cached_property
    def blocked_nodes(self) -> Mapping[str, Blocker]:
        """Nodes that get no pod because of a stray or an orphan to be adopted, with that blocker."""
        strays = dict.fromkeys((pod.node for pod in self.unmatched if pod.uid in self.world.strays), Blocker.STRAY)
        return strays | dict.fromkeys((pod.node for pod in self.adoptable), Blocker.ADOPTABLE)

    @cached_property
    def mid_surge(self) -> list[str]:
        """The nodes that use maxSurge: with two live pods, or with a live old pod and a failed new one in its
        back-off. Writes that the caches do not show yet count as done."""
        creates, deletes, current = self.world.pending_creates, self.world.pending_deletes, self.revision.hash
        return [
            node.name
            for node in self.nodes
            if node.fit is not None
            and (
                node.paired
                or node.awaits_retry(current)
                or (node.only_old and node.name in creates)
                or (node.current is not None and node.name in deletes)
            )
        ]

    @cached_property
    def unreachable_nodes(self) -> frozenset[str]:
        """The unreachable nodes; empty if none may be left out."""
        if not self.budget.leave_out:
            return frozenset()
        return frozenset(node.name for node in self.eligible if node.unreachable)

    @cached_property
    def unavailable_before(self) -> frozenset[str]:
        """The nodes of `Rollout.unavailable_before`, whose lack of an available pod is not due to the update.

        A node is added while its old pod, of the stable revision, is not Ready although nothing is done to it; and if
        it joined the cluster during the rollout and never had a pod."""
        rolling, record = self.rolling_update, self.record
        if rolling is None or (rolling.topology is None and rolling.on_failure is None):
            return frozenset()
        known = self.world.unavailable_before.union(record.unavailable_before or ())
        start = epoch(record.start_time) or self.began_before or inf
        stable, began = self.stable_hash, self.world.server_offset.earliest_date(start)
        return frozenset(
            node.name
            for node in self.lacking
            if node.name in known
            or (node.only_old_unready and node.old is not None and node.old.hash == stable)
            or (not node.pods and node.last is None and node.object is not None and node.object.created >= began)
        )

    @cached_property
    def stable_hash(self) -> str | None:
        """The hash of the stable revision; if none is recorded, of the oldest one, because any other may come from an
        update that was not completed."""
        stable = self.record.stable_revision
        return self.older[-1].hash if stable is None and self.older else stable

    @cached_property
    def dry_run(self) -> DryRun:
        return DryRun(world=self.world, revision=self.revision)

    @cached_property
    def began_before(self) -> float | None:
        """When a rollout without a status began (seconds since 1970): with the first pod of the current revision, if
        some node still has an older one. None if it begins now."""
        status = self.world.daemonset.status
        if (status is not None and status.update_revision) or not any(node.old is not None for node in self.eligible):
            return None
        return min((node.current.updated for node in self.eligible if node.current is not None), default=None)

    @cached_property
    def step_progress(self) -> StepProgress | None:
        """The progress through the steps as recorded; None if no steps apply."""
        daemonset, current = self.world.daemonset, self.revision.hash
        status = daemonset.status
        if not applies(daemonset, self.record, current, first=not self.older):
            return None
        return step_progress_of(
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
    def checks(self) -> tuple[CheckNow, ...]:
        """The states of the checks of the open step; empty while no step is open."""
        rolling, progress = self.rolling_update, self.step_progress
        if rolling is None or not rolling.checks or progress is None or progress.finished:
            return ()
        return checks_now(rolling.checks, self.world.check_results, self._own_record, self.world.now)

    @cached_property
    def held_by_check(self) -> CheckNow | None:
        """The first check that fails, else the first without an answer; None if the rollout waits for no check."""
        held = [check for check in self.checks if check.state is not None]
        return next((check for check in held if check.state is CheckState.FAILING), held[0] if held else None)

    @cached_property
    def failure(self) -> Failure:
        """The failure that aborts the rollout, if it is not aborted already."""
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
        return replace(by_nodes, why=by_nodes.why or by_checks.why, due=due)

    @cached_property
    def abort(self) -> str:
        """Why the rollout is aborted; empty if it is not."""
        current, record = self.revision.hash, self.record
        if is_overridden(self.world.daemonset, current):
            return ""
        return (record.aborted_message or "") if record.aborted_revision == current else self.failure.why

    @property
    def retry_requested(self) -> bool:
        """Whether `kruise-ds/retry` has a new value for the aborted revision; the next pass then tries it again."""
        aborted = self.record.aborted_revision == self.revision.hash
        return aborted and asks_for_retry(self.world.daemonset, self.record)

    @property
    def stopped(self) -> bool:
        """Whether no node newly gets the current revision: paused, aborted, or a check fails. While a check has no
        answer, only a node without a pod may."""
        rolling, check = self.rolling_update, self.held_by_check
        fails = check is not None and check.state is CheckState.FAILING
        return rolling is not None and (rolling.paused or bool(self.abort) or fails)

    @cached_property
    def split_by_selector(self) -> bool:
        """Whether `rollingUpdate.selector` is set and an eligible node is still old. An updated node that is not
        selected is then unplanned, although it stays in `target`."""
        rolling = self.rolling_update
        if rolling is None or rolling.selector is None:
            return False
        return any(node.old is not None for node in self.eligible)

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
        created = {
            name for name, revision_hash in self.world.pending_creates.items() if revision_hash == self.revision.hash
        }
        having = [node for node in in_order if node.current is not None or node.name in created]
        others = [node for node in in_order if node.current is None and node.name not in created]
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

    @property
    def unavailable_nodes(self) -> list[str]:
        """The eligible nodes that use maxUnavailable, in update order: without an available pod, or unreachable.
        `unplaceable` nodes do not count, nor those with a ready pod that has yet to be adopted."""
        lacking = {node.name for node in self.lacking} - self._excused
        return [node.name for node in self.eligible_in_order if node.name in lacking] if lacking else []

    @cached_property
    def _excused(self) -> set[str]:
        orphans = {pod.node for pod in self.adoptable if pod.ready}
        return {*self.unplaceable, *self.left_out, *(node.name for node in self.lacking if node.name in orphans)}

    @property
    def in_use(self) -> int:
        """The number of nodes that use `Budget.limit`."""
        return len(self.mid_surge) if self.surging else len(self.lacking) - len(self._excused)

    @property
    def room(self) -> int:
        """The number of nodes with an available old pod that the limit allows to update now."""
        return self.room_for(0)

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
    nodes, unmatched, next_available = read_nodes(world, revision.hash)
    desired = world.rules.evaluate(world.nodes).fits.count(Fit.RUN)
    return RolloutState(
        world=world,
        revision=revision,
        history=history,
        older=rolled_out(world, history),
        nodes=nodes,
        unmatched=unmatched,
        budget=budget_of(world.daemonset, desired),
        next_available=next_available,
    )
