"""How a DaemonSet stands in a pass: its nodes with their pods, and whether its rollout is stopped or fails. What
follows from that is in `rollout_state`. Loops over all nodes cost most, so they use no properties and look up each
enum member once (docs/design/life-of-an-event.md#what-a-pass-costs)."""

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
from controller.planner.limits import Budget, StepProgress, applies, step_progress_of
from controller.planner.node_fit import Fit
from controller.planner.nodes import NodeInfo
from controller.planner.revisions import DryRun
from controller.planner.world import World


class ObservedRollout(Value, dict=True, gc=True):
    """The facts of one pass, each computed once. `dict=True` and `gc=True` are for the cached properties."""

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
        coming, maybe_deleted, current = self.world.coming, self.world.maybe_deleted, self.revision.hash
        return [
            node.name
            for node in self.nodes
            if node.fit is not None
            and (
                node.paired
                or node.awaits_retry(current)
                or (node.only_old and node.name in coming)
                or (node.current is not None and node.name in maybe_deleted)
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
